/* CU_LIMIT_STACK_SIZE sets a stack aside for every thread that the card can hold: 8192 on the fake
 * one, whose first KiB is part of a context. */
#include "support.h"

enum { STACK = CU_LIMIT_STACK_SIZE, HEAP = CU_LIMIT_MALLOC_HEAP_SIZE };
#define KIB UINT64_C(1024)
#define THREADS 8192

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == bytes); }
static CUresult set(size_t bytes) { return CUDA(cuCtxSetLimit)(STACK, bytes); }
static size_t now(void) {
    size_t value;
    CUresult (*get)(size_t *, int) = (CUresult(*)(size_t *, int))cuda_function("cuCtxGetLimit");
    CHECK(get(&value, STACK) == CUDA_SUCCESS);
    return value;
}

int main(void) {
    files_make();
    CHECK(set(9 * KIB) == 201); /* no context */
    expect(0);
    context_make(0);
    CHECK(set(KIB / 2) == CUDA_SUCCESS);
    expect(CONTEXT_BYTES);
    CHECK(set(9 * KIB - 5) == CUDA_SUCCESS && now() == 9 * KIB); /* as the driver rounds it */
    expect(CONTEXT_BYTES + 8 * KIB * THREADS);
    CHECK(CUDA(cuCtxSetLimit)(HEAP, 18 * MIB) == CUDA_SUCCESS); /* each on its own account */
    expect(CONTEXT_BYTES + 8 * KIB * THREADS + 10 * MIB);
    CHECK(CUDA(cuCtxSetLimit)(HEAP, 8 * MIB) == CUDA_SUCCESS);

    CHECK(set(64 * KIB) == CUDA_ERROR_OUT_OF_MEMORY && now() == 9 * KIB);
    CHECK(set(SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY && now() == 9 * KIB);
    void (*fail_next)(CUresult) = (void (*)(CUresult))cuda_function("fake_fail_next");
    fail_next(999);
    CHECK(set(17 * KIB) == 999);
    expect(CONTEXT_BYTES + 8 * KIB * THREADS);
    /* Grown, it only needs what it grows by. */
    CUdeviceptr rest = allocate(SHARE_BYTES - CONTEXT_BYTES - 9 * KIB * THREADS);
    CHECK(set(10 * KIB) == CUDA_SUCCESS);
    expect(SHARE_BYTES);
    release(rest);
    CHECK(set(KIB) == CUDA_SUCCESS);
    expect(CONTEXT_BYTES);
    CHECK(set(9 * KIB) == CUDA_SUCCESS);
    CHECK(CUDA(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
    expect(0);
    return 0;
}
