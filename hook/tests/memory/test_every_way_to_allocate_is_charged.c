/* Each family takes from the same share and gives back to it. */
#include "support.h"

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == CONTEXT_BYTES + bytes); }

int main(void) {
    files_make();
    context_make(0);
    CUdeviceptr pointer;
    CUdeviceptr_v1 narrow;
    size_t pitch;
    CHECK(CUDA(cuMemAlloc)(&narrow, 3 * MIB) == CUDA_SUCCESS);
    expect(4 * MIB);
    CHECK(CUDA(cuMemFree)(narrow) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemAllocManaged)(&pointer, 6 * MIB, 1) == CUDA_SUCCESS);
    expect(6 * MIB);
    release(pointer);

    /* The driver pads rows to 1 KiB: the memory that it took is charged. */
    CHECK(CUDA(cuMemAllocPitch_v2)(&pointer, &pitch, 1, 8192, 4) == CUDA_SUCCESS);
    CHECK(pitch == 1024);
    expect(8 * MIB);
    release(pointer);
    /* Fits as the hook guesses, not as the driver pads. */
    size_t rows = (SHARE_BYTES - CONTEXT_BYTES) / 512;
    CHECK(CUDA(cuMemAllocPitch_v2)(&pointer, &pitch, 1, rows, 4) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(CUDA(cuMemAllocPitch_v2)(&pointer, &pitch, SIZE_MAX, 2, 4) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(((unsigned long long (*)(void))cuda_function("fake_in_use"))() == 0);

    CHECK(CUDA(cuMemAllocAsync)(&pointer, 8 * MIB, NULL) == CUDA_SUCCESS);
    expect(8 * MIB);
    CHECK(CUDA(cuMemFreeAsync)(pointer, NULL) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemAllocAsync_ptsz)(&pointer, SHARE_BYTES, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    expect(0);
    return 0;
}
