/* The share is exact: a request that fits is granted, one byte more is refused before the driver is
 * called. */
#include "support.h"

int main(void) {
    files_make();
    context_make(0);
    size_t rest = SHARE_BYTES - CONTEXT_BYTES;
    CHECK(try_allocate(rest) == CUDA_SUCCESS);
    unsigned long (*calls)(void) = (unsigned long (*)(void))cuda_function("fake_allocations");
    unsigned long before = calls();
    CHECK(try_allocate(rest + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(try_allocate(SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(calls() == before);

    CUdeviceptr most = allocate(rest - 2 * MIB);
    CHECK(try_allocate(2 * MIB + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CUdeviceptr last = allocate(2 * MIB);
    CHECK(try_allocate(1) == CUDA_ERROR_OUT_OF_MEMORY);
    release(last);
    CHECK(try_allocate(2 * MIB) == CUDA_SUCCESS);
    release(most);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
    return 0;
}
