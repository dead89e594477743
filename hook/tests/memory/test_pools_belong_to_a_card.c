/* Pools of a program's own: charged to the card that they take from, until the driver lets go. */
#include "support.h"

static CUmemoryPool made(int type, int id) {
    CUmemPoolProps properties = {.allocType = 1, .location = {.type = type, .id = id}};
    CUmemoryPool pool;
    CHECK(CUDA(cuMemPoolCreate)(&pool, &properties) == CUDA_SUCCESS);
    return pool;
}

static CUdeviceptr given(size_t bytes, CUmemoryPool pool) {
    CUdeviceptr pointer = 0;
    CHECK(CUDA(cuMemAllocFromPoolAsync)(&pointer, bytes, pool, NULL) == CUDA_SUCCESS);
    return pointer;
}

static void give(CUdeviceptr pointer) {
    CHECK(CUDA(cuMemFreeAsync)(pointer, NULL) == CUDA_SUCCESS);
}

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == CONTEXT_BYTES + bytes); }

static void expect_its_card_and_not_the_context(void) {
    CUmemoryPool own = made(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CUmemoryPool other = made(CU_MEM_LOCATION_TYPE_DEVICE, 1), host = made(2, 0);
    CUdeviceptr here = given(8 * MIB, own), there = given(900 * MIB, other);
    CUdeviceptr outside = given(8192 * MIB, host);
    expect(8 * MIB);
    give(here);
    give(there);
    give(outside);
    CHECK(CUDA(cuMemPoolDestroy)(own) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemPoolDestroy)(other) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemPoolDestroy)(host) == CUDA_SUCCESS);
    expect(0);
    CHECK(CUDA(cuMemPoolDestroy)(own) == 1);
}

/* cuMemAllocAsync takes from the current pool of the stream's device. */
static void expect_current_pool(void) {
    CUmemoryPool own = made(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CUresult (*set)(CUdevice, CUmemoryPool) =
        (CUresult(*)(CUdevice, CUmemoryPool))cuda_function("cuDeviceSetMemPool");
    CUstream (*stream_of)(CUcontext) = (CUstream(*)(CUcontext))cuda_function("fake_stream_of");
    CUmemoryPool standard;
    CUDA(cuDeviceGetDefaultMemPool)(&standard, 0);
    CHECK(set(0, own) == CUDA_SUCCESS);
    CUdeviceptr pointer, elsewhere;
    CHECK(CUDA(cuMemAllocAsync)(&pointer, 8 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemPoolTrimTo)(own, 0) == CUDA_SUCCESS);
    expect(8 * MIB);

    CUcontext before, after, other;
    CUresult (*get)(CUcontext *) = (CUresult(*)(CUcontext *))cuda_function("cuCtxGetCurrent");
    get(&before);
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&other, 1) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemAllocAsync)(&elsewhere, 900 * MIB, stream_of(other)) == CUDA_SUCCESS);
    get(&after);
    CHECK(before == after);
    expect(8 * MIB);
    give(elsewhere);
    give(pointer);
    CHECK(set(0, standard) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemPoolDestroy)(own) == CUDA_SUCCESS);
    expect(0);
}

/* A destroyed pool keeps its memory until the last of its allocations is freed. */
static void expect_to_outlive_its_handle(void) {
    CUmemoryPool own = made(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CUdeviceptr first = given(8 * MIB, own), second = given(8 * MIB, own);
    CHECK(CUDA(cuMemPoolDestroy)(own) == CUDA_SUCCESS);
    expect(16 * MIB);
    give(first);
    expect(16 * MIB);
    give(second);
    expect(0);
}

static void expect_imports_free(void) {
    static char exported[64];
    CUmemoryPool imported;
    CHECK(CUDA(cuMemPoolImportFromShareableHandle)(&imported, exported, 1, 0) == CUDA_SUCCESS);
    expect(0);
}

static void expect_many(void) {
    CUmemoryPool pools[40];
    CUdeviceptr pointers[40];
    for (unsigned i = 0; i < 40; i++) {
        pools[i] = made(CU_MEM_LOCATION_TYPE_DEVICE, 0);
        pointers[i] = given(2 * MIB, pools[i]);
    }
    expect(80 * MIB);
    for (unsigned i = 0; i < 40; i++) {
        give(pointers[i]);
        CHECK(CUDA(cuMemPoolDestroy)(pools[i]) == CUDA_SUCCESS);
    }
    expect(0);
}

int main(void) {
    files_make();
    context_make(0);
    expect_its_card_and_not_the_context();
    expect_current_pool();
    expect_to_outlive_its_handle();
    expect_imports_free();
    expect_many();
    return 0;
}
