/* Two cards, two shares: one that is full leaves the other as it is. */
#include "support.h"

int main(void) {
    files_make();
    context_make(0);
    allocate(SHARE_BYTES - CONTEXT_BYTES);
    CHECK(try_allocate(1) == CUDA_ERROR_OUT_OF_MEMORY);
    context_make(1);
    CHECK(try_allocate(2 * SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    CHECK(try_allocate(2 * SHARE_BYTES - CONTEXT_BYTES + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    size_t total = 0;
    CHECK(CUDA(cuDeviceTotalMem_v2)(&total, 1) == CUDA_SUCCESS);
    CHECK(total == 2 * SHARE_BYTES);
    return 0;
}
