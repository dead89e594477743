/*
 * A process that finds no place in the ledger, or no descriptor to open it with, is refused and
 * goes on; once there is one again, it is served.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

static int ready[2], end[2];

static void hold_a_place(void) {
    context_make(0);
    tell(ready);
    await(end);
}

static CUresult retain(void) {
    CUcontext context;
    return CUDA(cuDevicePrimaryCtxRetain)(&context, 0);
}

static void come_last(void) {
    CHECK(retain() == CUDA_ERROR_NOT_PERMITTED);
    CHECK(retain() == CUDA_ERROR_NOT_PERMITTED);
    tell(end);
    while (retain() != CUDA_SUCCESS) {
        usleep(1000); /* until the kernel has ended the other */
    }
}

static void have_no_descriptor(void) {
    cuda_function("cuInit"); /* the driver is loaded */
    struct rlimit none = {.rlim_cur = (rlim_t)dup(0), .rlim_max = 1024}, before;
    close((int)none.rlim_cur);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(open("limits", O_RDONLY) < 0);
    CHECK(retain() == CUDA_ERROR_NOT_PERMITTED);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(retain() == CUDA_SUCCESS);
}

int main(void) {
    files_make();
    struct vcuda_limits_body limits = limits_default();
    limits.devices[0].memory_bytes = (VCUDA_LEDGER_SLOTS + 1) * CONTEXT_BYTES;
    limits_write(&limits);
    CHECK(pipe(ready) == 0 && pipe(end) == 0);
    CHECK(in_child(have_no_descriptor) == 0);
    static pid_t children[VCUDA_LEDGER_SLOTS];
    for (unsigned i = 0; i < VCUDA_LEDGER_SLOTS; i++) {
        children[i] = start_child(hold_a_place);
        await(ready);
    }
    CHECK(in_child(come_last) == 0);
    for (unsigned i = 1; i < VCUDA_LEDGER_SLOTS; i++) {
        tell(end);
    }
    for (unsigned i = 0; i < VCUDA_LEDGER_SLOTS; i++) {
        CHECK(wait_child(children[i]) == 0);
    }
    return 0;
}
