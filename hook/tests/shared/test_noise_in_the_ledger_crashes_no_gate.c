/* A ledger that is missing, cut or full of noise: the gates follow on_error, and never crash. */
#include <fcntl.h>
#include <unistd.h>

#include "support.h"

static void scribble(unsigned seed) {
    int fd = open("ledger", O_WRONLY);
    CHECK(fd >= 0);
    srandom(seed);
    for (off_t offset = sizeof(struct vcuda_ledger_header);
         offset < (off_t)sizeof(struct vcuda_ledger_file); offset += (off_t)sizeof(uint64_t)) {
        uint64_t noise = (uint64_t)random() << 33 ^ (uint64_t)random() << 11 ^ (uint64_t)random();
        CHECK(pwrite(fd, &noise, sizeof noise, offset) == sizeof noise);
        if (offset == sizeof(struct vcuda_ledger_header)) { /* keep the cards' names */
            offset = offsetof(struct vcuda_ledger_file, slots);
        }
    }
    close(fd);
}

static void use_through_noise(void) {
    context_make(0);
    CUdeviceptr pointer = allocate(10 * MIB);
    for (unsigned seed = 0; seed < 5; seed++) {
        scribble(seed);
        try_allocate(4 * MIB);
        try_allocate(400 * MIB);
        size_t available, total;
        CUDA(cuMemGetInfo_v2)(&available, &total);
    }
    release(pointer);
}

static void use_while_it_is_cut(void) {
    context_make(0);
    CUdeviceptr pointer = allocate(10 * MIB);
    CHECK(truncate("ledger", 0) == 0);
    CHECK(try_allocate(4 * MIB) == CUDA_ERROR_NOT_PERMITTED);
    CHECK(truncate("ledger", 8192) == 0);
    CHECK(try_allocate(4 * MIB) == CUDA_ERROR_NOT_PERMITTED);
    CHECK(truncate("ledger", sizeof(struct vcuda_ledger_file)) == 0);
    CHECK(try_allocate(4 * MIB) == CUDA_ERROR_NOT_PERMITTED); /* all zero: no ledger of ours */
    release(pointer);
}

static void expect_closed(void) {
    CUcontext context;
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_ERROR_NOT_PERMITTED);
}

static void expect_open(void) {
    context_make(0);
    CHECK(try_allocate(2 * SHARE_BYTES) == CUDA_SUCCESS);
    size_t available, total;
    CHECK(CUDA(cuMemGetInfo_v2)(&available, &total) == CUDA_SUCCESS);
    CHECK(total == SHARE_BYTES);
}

int main(void) {
    files_make();
    CHECK(in_child(use_through_noise) == 0);
    files_make();
    CHECK(in_child(use_while_it_is_cut) == 0);
    CHECK(unlink("ledger") == 0);
    CHECK(in_child(expect_closed) == 0);
    struct vcuda_limits_body body = limits_default();
    body.on_error = VCUDA_ON_ERROR_OPEN;
    limits_write(&body);
    CHECK(in_child(expect_open) == 0);
    return 0;
}
