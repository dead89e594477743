/* The stream-ordered allocator: the pool's reserve is charged, also when memory was freed and given
 * out again. */
#include "support.h"

static CUmemoryPool standard;

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == CONTEXT_BYTES + bytes); }

static CUdeviceptr given(size_t bytes) {
    CUdeviceptr pointer = 0;
    CHECK(CUDA(cuMemAllocAsync)(&pointer, bytes, NULL) == CUDA_SUCCESS);
    return pointer;
}

static void give(CUdeviceptr pointer) {
    CHECK(CUDA(cuMemFreeAsync)(pointer, NULL) == CUDA_SUCCESS);
}

static void set_threshold(cuuint64_t bytes) {
    CUresult (*set)(CUmemoryPool, int, void *) =
        (CUresult(*)(CUmemoryPool, int, void *))cuda_function("cuMemPoolSetAttribute");
    CHECK(set(standard, 4, &bytes) == CUDA_SUCCESS);
}

static void set_chunk(unsigned long long bytes) {
    ((void (*)(unsigned long long))cuda_function("fake_set_pool_chunk"))(bytes);
}

static void expect_reuse_free(void) {
    CUdeviceptr first = given(8 * MIB);
    expect(8 * MIB);
    give(first);
    expect(8 * MIB); /* until the stream is known to be there */
    CUdeviceptr second = given(8 * MIB);
    expect(8 * MIB);
    give(second);
    CHECK(CUDA(cuStreamSynchronize)(NULL) == CUDA_SUCCESS);
    expect(0);
    CHECK(CUDA(cuMemFreeAsync)(second, NULL) == 1);
    expect(0);

    /* Both ways in, all ways of waiting. */
    CHECK(CUDA(cuMemAllocAsync_ptsz)(&first, 8 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemFreeAsync_ptsz)(first, NULL) == CUDA_SUCCESS);
    CHECK(CUDA(cuStreamSynchronize_ptsz)(NULL) == CUDA_SUCCESS);
    expect(0);
    give(given(8 * MIB));
    CHECK(CUDA(cuCtxSynchronize)() == CUDA_SUCCESS);
    expect(0);
    give(given(8 * MIB));
    CHECK(CUDA(cuEventSynchronize)(NULL) == CUDA_SUCCESS);
    expect(0);
    release(given(8 * MIB)); /* cuMemFree takes these too */
    CHECK(CUDA(cuCtxSynchronize)() == CUDA_SUCCESS);
    expect(0);
    CUdeviceptr plain = allocate(8 * MIB); /* and cuMemFreeAsync those of cuMemAlloc */
    give(plain);
    expect(0);
}

static void expect_threshold(void) {
    set_threshold(UINT64_MAX);
    give(given(100 * MIB));
    CHECK(CUDA(cuCtxSynchronize)() == CUDA_SUCCESS);
    expect(100 * MIB);
    CHECK(CUDA(cuMemPoolTrimTo)(standard, 40 * MIB) == CUDA_SUCCESS);
    expect(40 * MIB);
    /* Idle memory in the process's own pool is no reason to refuse. */
    CUdeviceptr rest = allocate(SHARE_BYTES - CONTEXT_BYTES);
    expect(SHARE_BYTES - CONTEXT_BYTES);
    release(rest);
    set_threshold(0);
}

/* A full share, but the pool has room: that room is given. */
static void expect_reuse_at_the_limit(void) {
    set_threshold(UINT64_MAX);
    give(given(100 * MIB));
    CUdeviceptr rest = allocate(SHARE_BYTES - CONTEXT_BYTES - 100 * MIB);
    CUdeviceptr reused = given(90 * MIB), pointer = 0;
    expect(SHARE_BYTES - CONTEXT_BYTES);
    CHECK(CUDA(cuMemAllocAsync)(&pointer, 12 * MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(pointer == 0);
    release(rest);
    give(reused);
    set_threshold(0);
    CHECK(CUDA(cuCtxSynchronize)() == CUDA_SUCCESS);
    expect(0);
}

/* The driver reserves more than the request: the reserve counts, and is undone where it doesn't
 * fit. */
static void expect_chunks(void) {
    unsigned long long (*in_use)(void) = (unsigned long long (*)(void))cuda_function("fake_in_use");
    set_chunk(32 * MIB);
    CUdeviceptr small = given(1), pointer = 0;
    expect(32 * MIB);
    CUdeviceptr other = given(MIB);
    expect(32 * MIB);
    give(small);
    give(other);
    CHECK(CUDA(cuCtxSynchronize)() == CUDA_SUCCESS);
    expect(0);
    CUdeviceptr rest = allocate(SHARE_BYTES - CONTEXT_BYTES - 20 * MIB);
    unsigned long long before = in_use();
    CHECK(CUDA(cuMemAllocAsync)(&pointer, MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(pointer == 0 && in_use() == before);
    expect(SHARE_BYTES - CONTEXT_BYTES - 20 * MIB);
    release(rest);
    set_chunk(2 * MIB);
}

static void expect_failures_undone(void) {
    void (*fail_next)(CUresult) = (void (*)(CUresult))cuda_function("fake_fail_next");
    CUdeviceptr pointer = 0;
    fail_next(999);
    CHECK(CUDA(cuMemAllocAsync)(&pointer, MIB, NULL) == 999);
    CHECK(CUDA(cuMemAllocAsync)(&pointer, 0, NULL) == 1);
    CHECK(CUDA(cuMemAllocAsync)(NULL, MIB, NULL) == 1);
    CHECK(CUDA(cuMemAllocFromPoolAsync)(&pointer, MIB, NULL, NULL) == 1);
    CHECK(CUDA(cuMemAllocAsync)(&pointer, SIZE_MAX, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(pointer == 0);
    expect(0);

    /* A pool that is gone: the driver refuses, and doesn't tell its size. */
    const CUmemPoolProps properties = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool gone;
    CHECK(CUDA(cuMemPoolCreate)(&gone, &properties) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemPoolDestroy)(gone) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        CHECK(CUDA(cuMemAllocFromPoolAsync)(&pointer, 8 * MIB, gone, NULL) != CUDA_SUCCESS);
        expect(0);
    }
}

int main(void) {
    files_make();
    context_make(0);
    CHECK(((CUresult(*)(CUmemoryPool *, CUdevice))cuda_function("cuDeviceGetDefaultMemPool"))(
              &standard, 0) == CUDA_SUCCESS);
    expect_reuse_free();
    expect_threshold();
    expect_reuse_at_the_limit();
    expect_chunks();
    expect_failures_undone();
    CUdeviceptr last = given(8 * MIB);
    CHECK(last != 0 && CUDA(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == 0);
    return 0;
}
