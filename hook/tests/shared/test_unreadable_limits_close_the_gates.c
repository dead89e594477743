/* Limits that were never readable: every request is refused. Once read, the last good ones stay. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static void expect_closed(void) {
    CUcontext context;
    size_t available, total = 7;
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_ERROR_NOT_PERMITTED);
    CHECK(CUDA(cuCtxCreate_v2)(&context, 0, 0) == CUDA_ERROR_NOT_PERMITTED);
    CHECK(CUDA(cuDeviceTotalMem_v2)(&total, 0) == CUDA_ERROR_NOT_PERMITTED);
    CHECK(CUDA(cuMemGetInfo_v2)(&available, &total) != CUDA_SUCCESS);
    CHECK(total == 7); /* the card's size isn't told either */
}

static void change(const char *path, off_t offset, const void *data, size_t size) {
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, data, size, offset) == (ssize_t)size);
    close(fd);
}

static void unlisted_card(void) {
    CUcontext context;
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, 1) == CUDA_ERROR_NOT_PERMITTED);
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
}

static void torn_while_running(void) {
    context_make(0);
    change("limits", offsetof(struct vcuda_limits_file, slots[0].body), "noise", 5);
    change("limits", offsetof(struct vcuda_limits_file, slots[0].header), "noise", 5);
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    CHECK(try_allocate(SHARE_BYTES) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void cut_while_running(void) {
    context_make(0);
    CUdeviceptr pointer = allocate(MIB);
    CHECK(truncate("activity", 0) == 0);
    release(pointer);
    CHECK(truncate("limits", 0) == 0);
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    CHECK(try_allocate(SHARE_BYTES) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void replaced_by_a_pipe(void) {
    CHECK(unlink("limits") == 0 && mkfifo("limits", 0666) == 0);
    expect_closed();
}

int main(void) {
    CHECK(in_child(expect_closed) == 0); /* no file at all */
    files_make();
    CHECK(truncate("limits", 100) == 0);
    CHECK(in_child(expect_closed) == 0);
    const uint32_t strange[] = {VCUDA_LAYOUT_OLDEST - 1, VCUDA_LAYOUT_VERSION + 1};
    for (unsigned i = 0; i < 2; i++) {
        files_make();
        change("limits", offsetof(struct vcuda_limits_file, header.version), &strange[i], 4);
        CHECK(in_child(expect_closed) == 0);
    }
    files_make();
    change("limits", offsetof(struct vcuda_limits_file, slots[0].body.devices), "\1", 1);
    CHECK(in_child(expect_closed) == 0); /* the CRC doesn't fit */
    files_make();
    change("limits", offsetof(struct vcuda_limits_file, header.published), "\7", 1);
    CHECK(in_child(expect_closed) == 0);
    struct vcuda_limits_body body = limits_default();
    body.device_count = 1;
    limits_write(&body);
    change("limits", offsetof(struct vcuda_limits_file, header.published), "\0", 1);
    CHECK(in_child(unlisted_card) == 0);
    CHECK(in_child(torn_while_running) == 0);
    files_make();
    CHECK(in_child(cut_while_running) == 0);
    files_make();
    CHECK(in_child(replaced_by_a_pipe) == 0);
    return 0;
}
