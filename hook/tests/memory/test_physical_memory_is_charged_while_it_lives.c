/* cuMemCreate and the holders of its memory: handles, also retained and imported ones, and
 * mappings. */
#include <unistd.h>

#include "support.h"

#define TWO_MIB (2 * MIB)
#define ADDRESS UINT64_C(0x7000000000)

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == bytes); }

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, int type, int id) {
    CUmemAllocationProp properties = {.type = 1, .location = {.type = type, .id = id}};
    return CUDA(cuMemCreate)(handle, bytes, &properties, 0);
}

static CUmemGenericAllocationHandle made(size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CHECK(create(&handle, bytes, CU_MEM_LOCATION_TYPE_DEVICE, 0) == CUDA_SUCCESS);
    return handle;
}

static CUresult map(uint64_t address, size_t bytes, CUmemGenericAllocationHandle handle) {
    return CUDA(cuMemMap)(address, bytes, 0, handle, 0);
}

static CUresult unmap(uint64_t address, size_t bytes) { return CUDA(cuMemUnmap)(address, bytes); }

static void let_go(CUmemGenericAllocationHandle handle) {
    CHECK(CUDA(cuMemRelease)(handle) == CUDA_SUCCESS);
}

static void expect_where_it_lies(void) {
    CUmemGenericAllocationHandle handle;
    CHECK(create(&handle, 8 * MIB, CU_MEM_LOCATION_TYPE_DEVICE, 1) == CUDA_SUCCESS);
    expect(0); /* of card 0, whose sum this is; no context was needed */
    context_make(1);
    size_t available, total;
    CHECK(CUDA(cuMemGetInfo_v2)(&available, &total) == CUDA_SUCCESS);
    CHECK(total == 2 * SHARE_BYTES && available == total - CONTEXT_BYTES - 8 * MIB);
    let_go(handle);
    for (int host = 2; host <= 4; host++) {
        CHECK(create(&handle, 2 * SHARE_BYTES, host, 0) == CUDA_SUCCESS);
        expect(0);
        let_go(handle);
    }
    CHECK(create(&handle, TWO_MIB, CU_MEM_LOCATION_TYPE_DEVICE, 7) == 1); /* no such card */
    CHECK(CUDA(cuMemCreate)(&handle, TWO_MIB, NULL, 0) == 1);
    expect(0);
}

static void expect_last_one_counts(void) {
    CUmemGenericAllocationHandle handle = made(8 * MIB), again;
    CHECK(map(ADDRESS, 8 * MIB, handle) == CUDA_SUCCESS);
    let_go(handle);
    expect(8 * MIB); /* mapped */
    CHECK(CUDA(cuMemRelease)(handle) == 1);
    CHECK(CUDA(cuMemRetainAllocationHandle)(&again, (void *)(ADDRESS + 5)) == CUDA_SUCCESS);
    CHECK(unmap(ADDRESS, 8 * MIB) == CUDA_SUCCESS);
    expect(8 * MIB); /* retained */
    let_go(again);
    expect(0);
    CHECK(CUDA(cuMemRelease)(again) == 1);
    CHECK(unmap(ADDRESS, 8 * MIB) == 1);
    expect(0);

    handle = made(TWO_MIB);
    CHECK(map(ADDRESS, TWO_MIB, handle) == CUDA_SUCCESS);
    CHECK(map(ADDRESS + TWO_MIB, TWO_MIB, handle) == CUDA_SUCCESS);
    let_go(handle);
    CHECK(unmap(ADDRESS, TWO_MIB) == CUDA_SUCCESS);
    expect(TWO_MIB); /* mapped elsewhere */
    CHECK(unmap(ADDRESS + TWO_MIB, TWO_MIB) == CUDA_SUCCESS);
    expect(0);
}

/* One call may undo several mappings, and one that fails undoes none. */
static void expect_ranges(void) {
    CUmemGenericAllocationHandle handles[4];
    for (unsigned i = 0; i < 4; i++) {
        handles[i] = made(4 * MIB);
        CHECK(map(ADDRESS + i * 4 * MIB, 4 * MIB, handles[i]) == CUDA_SUCCESS);
        let_go(handles[i]);
    }
    expect(16 * MIB);
    CHECK(unmap(ADDRESS, 17 * MIB) == 1);
    expect(16 * MIB);
    CHECK(unmap(ADDRESS, 12 * MIB) == CUDA_SUCCESS);
    expect(4 * MIB);
    CHECK(unmap(ADDRESS + 12 * MIB, 4 * MIB) == CUDA_SUCCESS);
    expect(0);
}

static int export_of(CUmemGenericAllocationHandle handle) {
    int fd;
    CHECK(CUDA(cuMemExportToShareableHandle)(&fd, handle, 1, 0) == CUDA_SUCCESS);
    return fd;
}

static CUmemGenericAllocationHandle imported_from(int fd) {
    CUmemGenericAllocationHandle handle;
    CHECK(CUDA(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd, 1) == CUDA_SUCCESS);
    return handle;
}

static void expect_imports_free(void) {
    CUmemGenericAllocationHandle handle = made(8 * MIB);
    int fd = export_of(handle);
    CUmemGenericAllocationHandle imported = imported_from(fd);
    CHECK(close(fd) == 0);
    expect(8 * MIB); /* once */
    let_go(handle);
    expect(8 * MIB);
    let_go(imported);
    expect(0);
    fd = export_of(99); /* of another process, which pays */
    imported = imported_from(fd);
    expect(0);
    CHECK(CUDA(cuMemRelease)(imported) == 1);
    expect(0);
    CHECK(close(fd) == 0);
}

static void expect_limit(void) {
    void (*fail_next)(CUresult) = (void (*)(CUresult))cuda_function("fake_fail_next");
    CUmemGenericAllocationHandle handle = 0;
    fail_next(999);
    CHECK(create(&handle, TWO_MIB, CU_MEM_LOCATION_TYPE_DEVICE, 0) == 999);
    expect(0);
    CHECK(create(&handle, 3, CU_MEM_LOCATION_TYPE_DEVICE, 0) == 1); /* not a multiple */
    expect(0);
    CHECK(create(&handle, SIZE_MAX / MIB * TWO_MIB, CU_MEM_LOCATION_TYPE_DEVICE, 0) ==
          CUDA_ERROR_OUT_OF_MEMORY);
    handle = made(SHARE_BYTES);
    CUmemGenericAllocationHandle other = 0;
    CHECK(create(&other, TWO_MIB, CU_MEM_LOCATION_TYPE_DEVICE, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(other == 0);
    CHECK(CUDA(cuMemMap)(ADDRESS, TWO_MIB, 0, handle, 1) == 1); /* refused by the driver */
    let_go(handle);
    expect(0);
}

/* It lies in no context. */
static void expect_to_outlive_contexts(void) {
    CUmemGenericAllocationHandle handle = made(8 * MIB);
    context_make(0);
    CHECK(CUDA(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
    expect(8 * MIB);
    let_go(handle);
    expect(0);
}

int main(void) {
    files_make();
    expect_where_it_lies();
    expect_last_one_counts();
    expect_ranges();
    expect_imports_free();
    expect_limit();
    expect_to_outlive_contexts();
    return 0;
}
