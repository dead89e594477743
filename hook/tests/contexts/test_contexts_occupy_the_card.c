/* A context is charged once, when it is first seen, and its allocations go with it. */
#include <dlfcn.h>

#include "support.h"

int main(void) {
    files_make();
    CUcontext primary, other, third;
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&primary, 0) == CUDA_SUCCESS);
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&primary, 0) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
    CHECK(CUDA(cuCtxCreate_v2)(&other, 0, 0) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == 2 * CONTEXT_BYTES);
    allocate(100 * MIB);
    allocate(1);
    CHECK(CUDA(cuCtxDestroy_v2)(other) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
    CHECK(CUDA(cuCtxDestroy_v2)(other) == 201);

    context_make(0);
    allocate(100 * MIB);
    CHECK(CUDA(cuDevicePrimaryCtxRelease_v2)(0) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 100 * MIB); /* retained three times */
    CHECK(CUDA(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == 0);

    /* A context that was made by an unknown call is charged at the first allocation in it. */
    CUcontext (*unseen)(int) = (CUcontext(*)(int))cuda_function("fake_context_made_privately");
    unseen(0);
    CUdeviceptr pointer = allocate(4 * MIB);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 4 * MIB);
    release(pointer);
    CHECK(CUDA(cuDevicePrimaryCtxRelease_v2)(0) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == 0);

    /* No room for a context: the driver isn't asked. */
    CHECK(CUDA(cuCtxCreate_v2)(&other, 0, 0) == CUDA_SUCCESS);
    allocate(SHARE_BYTES - CONTEXT_BYTES - 32 * MIB);
    CHECK(CUDA(cuCtxCreate_v2)(&third, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&primary, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    return 0;
}
