/* A green context is one more, and the primary one that it retains is charged too. */
#include "support.h"

static void expect(unsigned contexts, uint64_t bytes) {
    CHECK(ledger_sum_bytes() == contexts * CONTEXT_BYTES + bytes);
}

int main(void) {
    files_make();
    CUgreenCtx green, second;
    CUcontext context, current;
    CHECK(CUDA(cuGreenCtxCreate)(&green, NULL, 0, 7) == 1); /* wrong flags */
    expect(0, 0);
    CHECK(CUDA(cuGreenCtxCreate)(&green, NULL, 0, 1) == CUDA_SUCCESS);
    expect(2, 0);
    CHECK(CUDA(cuGreenCtxCreate)(&second, NULL, 0, 1) == CUDA_SUCCESS);
    expect(3, 0);
    CHECK(((CUresult(*)(CUcontext *, CUgreenCtx))cuda_function("cuCtxFromGreenCtx"))(
              &context, green) == CUDA_SUCCESS);
    ((CUresult(*)(CUcontext *))cuda_function("cuCtxGetCurrent"))(&current);
    CHECK(current == NULL);
    ((CUresult(*)(CUcontext))cuda_function("cuCtxSetCurrent"))(context);
    allocate(8 * MIB);
    expect(3, 8 * MIB); /* it is known */
    CHECK(CUDA(cuGreenCtxDestroy)(green) == CUDA_SUCCESS);
    expect(2, 0);
    CHECK(CUDA(cuGreenCtxDestroy)(second) == CUDA_SUCCESS);
    expect(0, 0);

    context_make(0);
    CHECK(CUDA(cuGreenCtxCreate)(&green, NULL, 0, 1) == CUDA_SUCCESS);
    expect(2, 0);
    allocate(SHARE_BYTES - 2 * CONTEXT_BYTES - 2 * MIB);
    CHECK(CUDA(cuGreenCtxCreate)(&second, NULL, 0, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(CUDA(cuGreenCtxDestroy)(green) == CUDA_SUCCESS);
    expect(1, SHARE_BYTES - 2 * CONTEXT_BYTES - 2 * MIB); /* the primary one has another user */
    return 0;
}
