/* Memory by descriptor: exported handles, pools, external memory. Rules: the documentation of the
 * calls in CUDA 12.2. */
#include "checks.h"
#include "two_processes.h"

#define GRANULE (2 * MIB)
#define CONTEXT (64 * MIB)

static CUmemAllocationProp shareable(void) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_POSIX_FD,
                                 .location = {CU_MEM_LOCATION_DEVICE, 0}};
}

static CUmemGenericAllocationHandle create_shareable(size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = shareable();
    OK(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
}

static CUdeviceptr map_all(CUmemGenericAllocationHandle handle, size_t bytes) {
    CUdeviceptr address;
    CUmemAccessDesc wanted = {{CU_MEM_LOCATION_DEVICE, 0}, CU_MEM_ACCESS_READWRITE};
    OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    OK(cuMemMap(address, bytes, 0, handle, 0));
    OK(cuMemSetAccess(address, bytes, &wanted, 1));
    return address;
}

static int export_fd(CUmemGenericAllocationHandle handle) {
    int fd = -1;
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_POSIX_FD, 0));
    EXPECT(fd >= 0);
    return fd;
}

static CUmemGenericAllocationHandle import_fd(int fd) {
    CUmemGenericAllocationHandle handle;
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_POSIX_FD));
    return handle;
}

static void export_by_fd(int socket) {
    new_context(0);
    size_t before = free_bytes();
    CUmemGenericAllocationHandle handle = create_shareable(3 * GRANULE);
    OK(cuMemcpyHtoD_v2(map_all(handle, 3 * GRANULE), "through a descriptor", 21));
    int fd = export_fd(handle);
    EXPECT(before - free_bytes() == 3 * GRANULE);
    send_fd(socket, fd);
    pause_until_killed(about_to_pause);
}

/* The exporter was killed while its descriptor lay in the socket. */
static void import_from_the_dead(int socket) {
    size_t left, total;
    CUmemAllocationProp properties;
    new_context(0);
    OK(cuMemGetInfo_v2(&left, &total));
    EXPECT(total - left == CONTEXT + 3 * GRANULE);
    int fd = receive_fd(socket);
    CUmemGenericAllocationHandle handle = import_fd(fd);
    close(fd);
    EXPECT(free_bytes() == left);
    OK(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
    EXPECT(properties.requestedHandleTypes == CU_MEM_HANDLE_POSIX_FD &&
           properties.location.id == 0);
    CUdeviceptr address = map_all(handle, 3 * GRANULE);
    expect_text(address, "through a descriptor");
    OK(cuMemRelease(handle));
    EXPECT(free_bytes() == left);
    OK(cuMemUnmap(address, 3 * GRANULE));
    EXPECT(free_bytes() - left == 3 * GRANULE);
}

static void a_descriptor_keeps_memory_alive(void) {
    both(export_by_fd, import_from_the_dead, true);
}

static void closed_descriptors_keep_nothing(void) {
    new_context(0);
    size_t before = free_bytes();
    CUmemGenericAllocationHandle handle = create_shareable(GRANULE);
    int fd = export_fd(handle), copy = dup(fd);
    OK(cuMemRelease(handle));
    close(fd);
    EXPECT(before - free_bytes() == GRANULE); /* the copy is left */
    close(copy);
    EXPECT(free_bytes() == before);
}

static void imports_and_releases_are_paired(void) {
    new_context(0);
    size_t before = free_bytes();
    CUmemGenericAllocationHandle handle = create_shareable(GRANULE);
    int fd = export_fd(handle);
    CUmemGenericAllocationHandle second = import_fd(fd), third = import_fd(fd);
    close(fd);
    OK(cuMemRelease(handle));
    OK(cuMemRelease(second));
    EXPECT(before - free_bytes() == GRANULE);
    OK(cuMemRelease(third));
    EXPECT(free_bytes() == before);
}

static void what_was_not_asked_for_cannot_be_exported(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = shareable();
    int fd, pipes[2];
    new_context(0);
    properties.requestedHandleTypes = 0;
    OK(cuMemCreate(&handle, GRANULE, &properties, 0));
    EXPECT_RC(cuMemExportToShareableHandle(&fd, handle, 1, 0), CUDA_ERROR_INVALID_VALUE);
    handle = create_shareable(GRANULE);
    EXPECT_RC(cuMemExportToShareableHandle(&fd, handle, 2, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemExportToShareableHandle(&fd, handle, 1, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(pipe(pipes) == 0);
    EXPECT_RC(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)pipes[0], 1),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)-1, 1),
              CUDA_ERROR_INVALID_VALUE);
}

static void export_pool(int socket) {
    CUmemoryPool pool;
    CUdeviceptr address;
    CUmemPoolPtrExportData data;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_PINNED,
                                 .handleTypes = CU_MEM_HANDLE_POSIX_FD,
                                 .location = {CU_MEM_LOCATION_DEVICE, 0}};
    int fd;
    new_context(0);
    OK(cuMemPoolCreate(&pool, &properties));
    OK(cuMemAllocFromPoolAsync(&address, 1000, pool, NULL));
    OK(cuMemAllocFromPoolAsync(&address, 1000, pool, NULL));
    OK(cuMemcpyHtoD_v2(address, "out of a pool", 14));
    EXPECT_RC(cuMemPoolExportPointer(&data, address), CUDA_ERROR_INVALID_VALUE); /* not yet */
    OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_POSIX_FD, 0));
    OK(cuMemPoolExportPointer(&data, address));
    send_fd(socket, fd);
    tell(socket, &data, sizeof data);
    await_step(socket);
    OK(cuMemFreeAsync(address, NULL));
}

static void import_pool(int socket) {
    CUmemoryPool pool;
    CUdeviceptr address, other;
    CUmemPoolPtrExportData data;
    int fd = receive_fd(socket);
    hear(socket, &data, sizeof data);
    new_context(0);
    size_t before = free_bytes();
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, 1, 0));
    OK(cuMemPoolImportPointer(&address, pool, &data));
    EXPECT(free_bytes() == before);
    expect_text(address, "out of a pool");
    EXPECT_RC(cuMemAllocFromPoolAsync(&other, 100, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(address, NULL));
    EXPECT_RC(cuMemcpyDtoH_v2(&data, address, 1), CUDA_ERROR_INVALID_VALUE);
    memset(&data, 1, sizeof data);
    EXPECT_RC(cuMemPoolImportPointer(&address, pool, &data), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolDestroy(pool));
    signal_step(socket);
}

static void pools_and_their_pointers_are_shared(void) { both(export_pool, import_pool, false); }

static void pools_without_a_handle_type_are_not_shared(void) {
    CUmemoryPool pool;
    int fd;
    new_context(0);
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    EXPECT_RC(cuMemPoolExportToShareableHandle(&fd, pool, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

static void external_memory_is_mapped_and_takes_the_descriptor(void) {
    CUexternalMemory external;
    CUdeviceptr address;
    CUmipmappedArray mipmap;
    new_context(0);
    size_t before = free_bytes();
    CUmemGenericAllocationHandle handle = create_shareable(4 * GRANULE);
    OK(cuMemcpyHtoD_v2(map_all(handle, 4 * GRANULE) + GRANULE + 256, "external", 9));
    int fd = export_fd(handle);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {
        .type = CU_EXTERNAL_OPAQUE_FD, .handle.fd = fd, .size = 4 * GRANULE};
    OK(cuImportExternalMemory(&external, &description));
    EXPECT(close(fd) != 0); /* it is the driver's now */
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = GRANULE + 256, .size = GRANULE};
    OK(cuExternalMemoryGetMappedBuffer(&address, external, &buffer));
    expect_text(address, "external");
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC array = {.arrayDesc = {1024, 1024, 0, 0x20, 1, 0},
                                                       .numLevels = 1};
    OK(cuExternalMemoryGetMappedMipmappedArray(&mipmap, external, &array));
    EXPECT(before - free_bytes() == 4 * GRANULE); /* held, not taken again */
    OK(cuDestroyExternalMemory(external));
    EXPECT_RC(cuDestroyExternalMemory(external), CUDA_ERROR_INVALID_HANDLE);
    expect_text(address, "external");
    OK(cuMemFree_v2(address));
    OK(cuMipmappedArrayDestroy(mipmap));
}

static void bad_external_memory_is_refused(void) {
    CUexternalMemory external;
    CUdeviceptr address;
    new_context(0);
    int fd = export_fd(create_shareable(GRANULE));
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {
        .type = CU_EXTERNAL_OPAQUE_FD, .handle.fd = fd, .size = 2 * GRANULE};
    EXPECT_RC(cuImportExternalMemory(&external, &description), CUDA_ERROR_INVALID_VALUE);
    description.type = 2;
    EXPECT_RC(cuImportExternalMemory(&external, &description), CUDA_ERROR_NOT_SUPPORTED);
    description = (CUDA_EXTERNAL_MEMORY_HANDLE_DESC){
        .type = CU_EXTERNAL_OPAQUE_FD, .handle.fd = fd, .size = GRANULE};
    OK(cuImportExternalMemory(&external, &description));
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 4096, .size = GRANULE};
    EXPECT_RC(cuExternalMemoryGetMappedBuffer(&address, external, &buffer),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuExternalMemoryGetMappedBuffer(&address, NULL, &buffer), CUDA_ERROR_INVALID_HANDLE);
}

static const struct check checks[] = {
    CHECK(a_descriptor_keeps_memory_alive),
    CHECK(closed_descriptors_keep_nothing),
    CHECK(imports_and_releases_are_paired),
    CHECK(what_was_not_asked_for_cannot_be_exported),
    CHECK(pools_and_their_pointers_are_shared),
    CHECK(pools_without_a_handle_type_are_not_shared),
    CHECK(external_memory_is_mapped_and_takes_the_descriptor),
    CHECK(bad_external_memory_is_refused),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
