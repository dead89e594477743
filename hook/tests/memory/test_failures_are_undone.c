/* A request that the driver refuses isn't charged, and the driver answers requests that the hook
 * doesn't know. */
#include "support.h"

int main(void) {
    files_make();
    context_make(0);
    void (*fail_next)(CUresult) = (void (*)(CUresult))cuda_function("fake_fail_next");
    fail_next(999);
    CHECK(try_allocate(100 * MIB) == 999);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
    CUdeviceptr pointer;
    CHECK(CUDA(cuMemAlloc_v2)(&pointer, 0) == 1); /* INVALID_VALUE */
    CHECK(CUDA(cuMemAllocManaged)(&pointer, MIB, 0) == 1);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);

    CHECK(CUDA(cuMemFree_v2)(12345) == 1);
    pointer = allocate(4 * MIB);
    release(pointer);
    CHECK(CUDA(cuMemFree_v2)(pointer) == 1); /* twice */
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);

    CUcontext context;
    fail_next(999);
    CHECK(CUDA(cuCtxCreate_v2)(&context, 0, 0) == 999);
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, 7) == 1); /* no such device */
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);

    ((CUresult(*)(CUcontext))cuda_function("cuCtxSetCurrent"))(NULL);
    CHECK(CUDA(cuMemAlloc_v2)(&pointer, MIB) == 201); /* INVALID_CONTEXT */
    return 0;
}
