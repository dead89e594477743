/* Memory by handle, reserved addresses, mappings. Rules: the documentation of the calls in CUDA
 * 12.2. That handles and ranges belong to the process and not to a context is ours: nothing of
 * them names a context. */
#include <string.h>

#include "checks.h"

#define GRANULE (2 * MIB)

static CUmemAllocationProp on_device(int device) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_PINNED,
                                 .location = {CU_MEM_LOCATION_DEVICE, device}};
}

static CUmemGenericAllocationHandle create(size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = on_device(0);
    OK(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
}

static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr address;
    OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
}

static void allow(CUdeviceptr address, size_t bytes, int device, int flags) {
    CUmemAccessDesc wanted = {{CU_MEM_LOCATION_DEVICE, device}, flags};
    OK(cuMemSetAccess(address, bytes, &wanted, 1));
}

static CUdeviceptr mapped(size_t bytes) {
    CUdeviceptr address = reserve(bytes);
    CUmemGenericAllocationHandle handle = create(bytes);
    OK(cuMemMap(address, bytes, 0, handle, 0));
    OK(cuMemRelease(handle));
    allow(address, bytes, 0, CU_MEM_ACCESS_READWRITE);
    return address;
}

static void granularity_is_two_mebibytes(void) {
    size_t smallest = 0, recommended = 0;
    CUmemAllocationProp properties = on_device(0);
    OK(cuInit(0));
    OK(cuMemGetAllocationGranularity(&smallest, &properties, 0));
    OK(cuMemGetAllocationGranularity(&recommended, &properties, 1));
    EXPECT(smallest == GRANULE && recommended == GRANULE);
    EXPECT_RC(cuMemGetAllocationGranularity(&smallest, &properties, 2), CUDA_ERROR_INVALID_VALUE);
    properties.type = 0;
    EXPECT_RC(cuMemGetAllocationGranularity(&smallest, &properties, 0), CUDA_ERROR_INVALID_VALUE);
}

static void a_handle_takes_of_the_card_before_it_is_mapped(void) {
    new_context(0);
    size_t before = free_bytes();
    CUmemGenericAllocationHandle handle = create(5 * GRANULE);
    EXPECT(before - free_bytes() == 5 * GRANULE);
    OK(cuMemRelease(handle));
    EXPECT(free_bytes() == before);
    EXPECT_RC(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE); /* ours; there undefined */
}

static void memory_of_another_device_is_taken_there(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = on_device(1);
    new_context(0);
    size_t before = free_bytes();
    OK(cuMemCreate(&handle, GRANULE, &properties, 0));
    EXPECT(free_bytes() == before);
    new_context(1);
    EXPECT(before - free_bytes() == GRANULE); /* two cards alike, a context on each */
}

static void it_needs_no_context(void) {
    OK(cuInit(0));
    OK(cuMemUnmap(mapped(GRANULE), GRANULE));
}

/* "Freed when all outstanding mappings … and … references to the handle are released." */
static void memory_lives_as_long_as_handle_or_mapping(void) {
    new_context(0);
    size_t before = free_bytes();
    CUmemGenericAllocationHandle handle = create(2 * GRANULE), again;
    CUdeviceptr first = reserve(2 * GRANULE), second = reserve(2 * GRANULE);
    OK(cuMemMap(first, 2 * GRANULE, 0, handle, 0));
    OK(cuMemMap(second, GRANULE, 0, handle, 0)); /* a part, and a second time */
    OK(cuMemRelease(handle));
    OK(cuMemUnmap(first, 2 * GRANULE));
    EXPECT(before - free_bytes() == 2 * GRANULE);
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(second + 100)));
    EXPECT(again == handle);
    OK(cuMemUnmap(second, GRANULE));
    EXPECT(before - free_bytes() == 2 * GRANULE);
    OK(cuMemRelease(again));
    EXPECT(free_bytes() == before);
    EXPECT_RC(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)second),
              CUDA_ERROR_INVALID_VALUE);
}

static void contexts_come_and_go_without_it(void) {
    char text[8] = "kept", back[8] = "";
    CUcontext context = new_context(0);
    size_t before = free_bytes();
    CUdeviceptr address = mapped(GRANULE);
    OK(cuMemcpyHtoD_v2(address, text, sizeof text));
    OK(cuCtxDestroy_v2(context));
    new_context(0);
    EXPECT(before - free_bytes() == GRANULE);
    OK(cuMemcpyDtoH_v2(back, address, sizeof back));
    EXPECT(strcmp(back, "kept") == 0);
}

static void one_memory_is_seen_at_every_mapping(void) {
    char text[8] = "same", back[8] = "";
    new_context(0);
    CUmemGenericAllocationHandle handle = create(GRANULE);
    CUdeviceptr first = reserve(GRANULE), second = reserve(GRANULE);
    OK(cuMemMap(first, GRANULE, 0, handle, 0));
    OK(cuMemMap(second, GRANULE, 0, handle, 0));
    allow(first, GRANULE, 0, CU_MEM_ACCESS_READWRITE);
    allow(second, GRANULE, 0, CU_MEM_ACCESS_READWRITE);
    OK(cuMemcpyHtoD_v2(first, text, sizeof text));
    OK(cuMemcpyDtoH_v2(back, second, sizeof back));
    EXPECT(strcmp(back, "same") == 0);
}

static void mappings_side_by_side_are_one_range_for_copies(void) {
    char text[8] = "across", back[8] = "";
    new_context(0);
    CUdeviceptr address = reserve(3 * GRANULE);
    for (int i = 0; i < 2; i++)
        OK(cuMemMap(address + i * GRANULE, GRANULE, 0, create(GRANULE), 0));
    EXPECT_RC(cuMemcpyHtoD_v2(address, text, sizeof text), CUDA_ERROR_INVALID_VALUE);
    allow(address, 2 * GRANULE, 0, CU_MEM_ACCESS_READWRITE); /* "mappings start with no access" */
    OK(cuMemcpyHtoD_v2(address + GRANULE - 4, text, sizeof text));
    OK(cuMemcpyDtoH_v2(back, address + GRANULE - 4, sizeof back));
    EXPECT(strcmp(back, "across") == 0);
    EXPECT_RC(cuMemcpyHtoD_v2(address + 2 * GRANULE - 4, text, 8), CUDA_ERROR_INVALID_VALUE);
}

static void access_is_by_device(void) {
    unsigned long long flags;
    CUmemLocation own = {CU_MEM_LOCATION_DEVICE, 0}, peer = {CU_MEM_LOCATION_DEVICE, 1};
    CUmemAccessDesc host = {{CU_MEM_LOCATION_HOST_NUMA, 0}, CU_MEM_ACCESS_READWRITE};
    new_context(0);
    CUdeviceptr address = mapped(GRANULE);
    OK(cuMemGetAccess(&flags, &own, address));
    EXPECT(flags == CU_MEM_ACCESS_READWRITE);
    OK(cuMemGetAccess(&flags, &peer, address));
    EXPECT(flags == 0);
    allow(address, GRANULE, 1, CU_MEM_ACCESS_READ);
    OK(cuMemGetAccess(&flags, &peer, address + 5));
    EXPECT(flags == CU_MEM_ACCESS_READ);
    EXPECT_RC(cuMemSetAccess(address, GRANULE, &host, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(address, GRANULE));
    EXPECT_RC(cuMemGetAccess(&flags, &own, address), CUDA_ERROR_INVALID_VALUE);
}

/* "cuMemUnmap cannot unmap a sub-range"; several whole mappings at once are ours. */
static void mappings_are_taken_off_as_wholes(void) {
    new_context(0);
    CUdeviceptr address = reserve(4 * GRANULE);
    OK(cuMemMap(address, 2 * GRANULE, 0, create(2 * GRANULE), 0));
    OK(cuMemMap(address + 2 * GRANULE, GRANULE, 0, create(GRANULE), 0));
    EXPECT_RC(cuMemUnmap(address, GRANULE), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemUnmap(address, 4 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(address, 3 * GRANULE));
    EXPECT_RC(cuMemUnmap(address, 3 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(address + GRANULE, GRANULE, 0, create(GRANULE), 0));
}

static void bad_mappings_are_refused(void) {
    new_context(0);
    CUdeviceptr address = reserve(2 * GRANULE);
    CUmemGenericAllocationHandle handle = create(GRANULE);
    EXPECT_RC(cuMemMap(address, 2 * GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemMap(address + 4096, GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemMap(address, 4096, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemMap(address, GRANULE, GRANULE, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemMap(address, GRANULE, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemMap(address, GRANULE, 0, handle + 8, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemMap(address + 2 * GRANULE, GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(address, GRANULE, 0, handle, 0));
    EXPECT_RC(cuMemMap(address, GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAddressFree(address, 2 * GRANULE), CUDA_ERROR_INVALID_VALUE); /* mapped */
}

static void ranges_are_given_back_as_they_were_got(void) {
    CUdeviceptr address;
    new_context(0);
    size_t before = free_bytes();
    OK(cuMemAddressReserve(&address, 1024 * MIB, 16 * GRANULE, 0, 0));
    EXPECT(address % (16 * GRANULE) == 0 && free_bytes() == before);
    EXPECT_RC(cuMemAddressFree(address, GRANULE), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAddressFree(address + GRANULE, 1024 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(address, 1024 * MIB));
    EXPECT_RC(cuMemAddressFree(address, 1024 * MIB), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAddressReserve(&address, 100, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAddressReserve(&address, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAddressReserve(&address, GRANULE, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAddressReserve(&address, GRANULE, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

static void bad_allocations_are_refused(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = on_device(0);
    new_context(0);
    EXPECT_RC(cuMemCreate(&handle, GRANULE + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemCreate(&handle, 0, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemCreate(&handle, GRANULE, &properties, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemCreate(NULL, GRANULE, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemCreate(&handle, free_bytes() + GRANULE, &properties, 0),
              CUDA_ERROR_OUT_OF_MEMORY);
    properties.requestedHandleTypes = 2;
    EXPECT_RC(cuMemCreate(&handle, GRANULE, &properties, 0), CUDA_ERROR_NOT_SUPPORTED);
    properties = on_device(5);
    EXPECT_RC(cuMemCreate(&handle, GRANULE, &properties, 0), CUDA_ERROR_INVALID_DEVICE);
    properties.location.type = 0;
    EXPECT_RC(cuMemCreate(&handle, GRANULE, &properties, 0), CUDA_ERROR_INVALID_VALUE);
}

static void memory_of_the_host_takes_nothing_of_the_card(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = on_device(0), found;
    unsigned type;
    new_context(0);
    size_t before = free_bytes();
    properties.location = (CUmemLocation){CU_MEM_LOCATION_HOST_NUMA, 0};
    OK(cuMemCreate(&handle, 100 * GRANULE, &properties, 0));
    EXPECT(free_bytes() == before);
    OK(cuMemGetAllocationPropertiesFromHandle(&found, handle));
    EXPECT(memcmp(&found, &properties, sizeof found) == 0);
    CUdeviceptr address = reserve(100 * GRANULE);
    OK(cuMemMap(address, 100 * GRANULE, 0, handle, 0));
    OK(cuPointerGetAttribute(&type, 2, address));
    EXPECT(type == 1);
}

static void pointers_into_ranges_tell_range_and_mapping(void) {
    int mapped_here;
    CUdeviceptr start;
    size_t bytes;
    CUcontext context;
    uint64_t types;
    new_context(0);
    CUdeviceptr address = reserve(4 * GRANULE);
    OK(cuMemMap(address + GRANULE, GRANULE, 0, create(GRANULE), 0));
    OK(cuPointerGetAttribute(&mapped_here, 13, address));
    EXPECT(!mapped_here);
    OK(cuPointerGetAttribute(&mapped_here, 13, address + GRANULE));
    EXPECT(mapped_here);
    OK(cuPointerGetAttribute(&start, 11, address + GRANULE + 7));
    OK(cuPointerGetAttribute(&bytes, 12, address + GRANULE + 7));
    EXPECT(start == address && bytes == 4 * GRANULE);
    OK(cuMemGetAddressRange_v2(&start, &bytes, address + GRANULE + 7));
    EXPECT(start == address + GRANULE && bytes == GRANULE);
    OK(cuPointerGetAttribute(&context, 1, address + GRANULE));
    OK(cuPointerGetAttribute(&types, 14, address + GRANULE));
    EXPECT(!context && types == 0);
}

static const struct check checks[] = {
    CHECK(granularity_is_two_mebibytes),
    CHECK(a_handle_takes_of_the_card_before_it_is_mapped),
    CHECK(memory_of_another_device_is_taken_there),
    CHECK(it_needs_no_context),
    CHECK(memory_lives_as_long_as_handle_or_mapping),
    CHECK(contexts_come_and_go_without_it),
    CHECK(one_memory_is_seen_at_every_mapping),
    CHECK(mappings_side_by_side_are_one_range_for_copies),
    CHECK(access_is_by_device),
    CHECK(mappings_are_taken_off_as_wholes),
    CHECK(bad_mappings_are_refused),
    CHECK(ranges_are_given_back_as_they_were_got),
    CHECK(bad_allocations_are_refused),
    CHECK(memory_of_the_host_takes_nothing_of_the_card),
    CHECK(pointers_into_ranges_tell_range_and_mapping),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
