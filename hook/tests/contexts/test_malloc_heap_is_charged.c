/* cuCtxSetLimit sets the heap of device-side malloc aside: what exceeds the default counts. */
#include "support.h"

enum { HEAP = CU_LIMIT_MALLOC_HEAP_SIZE, PRINTF = 1 };

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == bytes); }

int main(void) {
    files_make();
    CHECK(CUDA(cuCtxSetLimit)(HEAP, 64 * MIB) == 201); /* no context */
    expect(0);
    context_make(0);
    CHECK(CUDA(cuCtxSetLimit)(PRINTF, 4096 * MIB) == CUDA_SUCCESS); /* goes by as it is */
    CHECK(CUDA(cuCtxSetLimit)(HEAP, 4 * MIB) == CUDA_SUCCESS);
    expect(CONTEXT_BYTES);
    CHECK(CUDA(cuCtxSetLimit)(HEAP, 108 * MIB - 5) == CUDA_SUCCESS);
    expect(CONTEXT_BYTES + 100 * MIB);
    CHECK(CUDA(cuCtxSetLimit)(HEAP, 58 * MIB) == CUDA_SUCCESS);
    expect(CONTEXT_BYTES + 50 * MIB);

    void (*fail_next)(CUresult) = (void (*)(CUresult))cuda_function("fake_fail_next");
    fail_next(999);
    CHECK(CUDA(cuCtxSetLimit)(HEAP, 200 * MIB) == 999);
    expect(CONTEXT_BYTES + 50 * MIB);
    CHECK(CUDA(cuCtxSetLimit)(HEAP, SHARE_BYTES) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(CUDA(cuCtxSetLimit)(HEAP, SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
    expect(CONTEXT_BYTES + 50 * MIB);
    /* Grown, it only needs what it grows by. */
    CUdeviceptr rest = allocate(SHARE_BYTES - CONTEXT_BYTES - 60 * MIB);
    CHECK(CUDA(cuCtxSetLimit)(HEAP, 68 * MIB) == CUDA_SUCCESS);
    expect(SHARE_BYTES);
    release(rest);
    CHECK(CUDA(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
    expect(0);
    return 0;
}
