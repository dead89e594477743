/* A published change holds for the next call, up and down; a limit below the use takes no memory
 * away, and grants no more. */
#include "support.h"

int main(void) {
    files_make();
    context_make(0);
    CUdeviceptr pointer = allocate(400 * MIB);
    CHECK(try_allocate(100 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    struct vcuda_limits_body body = limits_default();
    body.devices[0].memory_bytes = 1024 * MIB;
    limits_publish(&body);
    CHECK(try_allocate(560 * MIB) == CUDA_SUCCESS);
    CHECK(try_allocate(561 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    body.devices[0].memory_bytes = 256 * MIB;
    limits_publish(&body);
    CHECK(try_allocate(2 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    size_t available = 1, total = 0;
    CHECK(CUDA(cuMemGetInfo_v2)(&available, &total) == CUDA_SUCCESS);
    CHECK(available == 0 && total == 256 * MIB);
    release(pointer);
    CHECK(try_allocate(192 * MIB) == CUDA_SUCCESS);
    return 0;
}
