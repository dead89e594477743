/* Arrays and mipmapped arrays. Rules of descriptors and errors: the documentation of the calls in
 * CUDA 12.2; extents: the programming guide's technical specifications for 8.0. The bytes are
 * ours: rows of 64 bytes, eight rows a block, and then as a request of that size. */
#include <string.h>

#include "checks.h"

#define GRANULE (2 * MIB)
#define FLOAT32 0x20
#define UINT8 0x01

static size_t cost_of(CUDA_ARRAY3D_DESCRIPTOR d, int wanted) {
    CUarray array;
    size_t before = free_bytes();
    EXPECT_RC(cuArray3DCreate_v2(&array, &d), wanted);
    size_t bytes = before - free_bytes();
    if (wanted == CUDA_SUCCESS) {
        OK(cuArrayDestroy(array));
        EXPECT_RC(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    }
    EXPECT(free_bytes() == before);
    return bytes;
}

static void an_array_takes_padded_rows_in_granules(void) {
    new_context(0);
    EXPECT(cost_of((CUDA_ARRAY3D_DESCRIPTOR){1, 0, 0, UINT8, 1, 0}, CUDA_SUCCESS) == GRANULE);
    EXPECT(cost_of((CUDA_ARRAY3D_DESCRIPTOR){1024, 1024, 0, FLOAT32, 1, 0}, CUDA_SUCCESS) ==
           4 * MIB);
    EXPECT(cost_of((CUDA_ARRAY3D_DESCRIPTOR){1025, 1024, 0, FLOAT32, 1, 0}, CUDA_SUCCESS) ==
           6 * MIB);
    EXPECT(cost_of((CUDA_ARRAY3D_DESCRIPTOR){1, 8192, 16, UINT8, 1, 0}, CUDA_SUCCESS) == 8 * MIB);
    EXPECT(cost_of((CUDA_ARRAY3D_DESCRIPTOR){256, 256, 256, FLOAT32, 4, 0}, CUDA_SUCCESS) ==
           256 * MIB);
}

/* Ours, by likeness with small requests of cuMemAlloc. */
static void small_arrays_share_a_granule(void) {
    CUarray arrays[33];
    CUmipmappedArray mipmap;
    CUdeviceptr address;
    CUDA_ARRAY3D_DESCRIPTOR d = {64, 256, 0, FLOAT32, 1, 0}; /* 64 KiB */
    CUDA_ARRAY3D_DESCRIPTOR large = {1024, 264, 0, FLOAT32, 1, 0};
    new_context(0);
    size_t before = free_bytes();
    for (int i = 0; i < 30; i++)
        OK(cuArray3DCreate_v2(&arrays[i], &d));
    OK(cuMipmappedArrayCreate(&mipmap, &d, 1));
    OK(cuMemAlloc_v2(&address, 1 << 16));
    EXPECT(before - free_bytes() == GRANULE);
    for (int i = 30; i < 33; i++)
        OK(cuArray3DCreate_v2(&arrays[i], i < 32 ? &d : &large));
    EXPECT(before - free_bytes() == 3 * GRANULE); /* one of them has a granule of its own */
    OK(cuMemFree_v2(address));
    OK(cuMipmappedArrayDestroy(mipmap));
    for (int i = 0; i < 33; i++)
        OK(cuArrayDestroy(arrays[i]));
    EXPECT(free_bytes() == before);
}

static void all_ways_of_making_one_take_the_same(void) {
    CUarray arrays[4];
    new_context(0);
    size_t before = free_bytes();
    CUDA_ARRAY_DESCRIPTOR_v1 narrow = {1024, 2048, FLOAT32, 1};
    CUDA_ARRAY_DESCRIPTOR wide = {1024, 2048, FLOAT32, 1};
    CUDA_ARRAY3D_DESCRIPTOR_v1 narrow3 = {1024, 2048, 0, FLOAT32, 1, 0};
    CUDA_ARRAY3D_DESCRIPTOR wide3 = {1024, 2048, 0, FLOAT32, 1, 0};
    OK(cuArrayCreate(&arrays[0], &narrow));
    OK(cuArrayCreate_v2(&arrays[1], &wide));
    OK(cuArray3DCreate(&arrays[2], &narrow3));
    OK(cuArray3DCreate_v2(&arrays[3], &wide3));
    EXPECT(before - free_bytes() == 4 * 8 * MIB);
    for (int i = 0; i < 4; i++) {
        CUDA_ARRAY_DESCRIPTOR found;
        OK(cuArrayGetDescriptor_v2(&found, arrays[i]));
        EXPECT(memcmp(&found, &wide, sizeof found) == 0);
        OK(cuArrayDestroy(arrays[i]));
    }
    EXPECT(free_bytes() == before);
}

static void descriptors_are_given_back(void) {
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR wanted = {64, 32, 16, 0x10, 2, CU_ARRAY_SURFACE}, found;
    CUDA_ARRAY3D_DESCRIPTOR_v1 narrow;
    CUDA_ARRAY_DESCRIPTOR flat;
    new_context(0);
    OK(cuArray3DCreate_v2(&array, &wanted));
    OK(cuArray3DGetDescriptor_v2(&found, array));
    EXPECT(memcmp(&found, &wanted, sizeof found) == 0);
    OK(cuArray3DGetDescriptor(&narrow, array));
    EXPECT(narrow.Width == 64 && narrow.Depth == 16 && narrow.Flags == CU_ARRAY_SURFACE);
    EXPECT_RC(cuArrayGetDescriptor_v2(&flat, array), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuArray3DGetDescriptor_v2(&found, (CUarray)&found), CUDA_ERROR_INVALID_HANDLE);
}

static void bad_arrays_are_invalid(void) {
    static const CUDA_ARRAY3D_DESCRIPTOR bad[] = {
        {0, 1, 0, FLOAT32, 1, 0},
        {1, 1, 0, FLOAT32, 3, 0},
        {1, 1, 0, 0x77, 1, 0},
        {131073, 0, 0, UINT8, 1, 0},
        {1, 65537, 0, UINT8, 1, 0},
        {1, 0, 2, UINT8, 1, 0},
        {1, 1, 16385, UINT8, 1, 0},
        {4, 5, 6, UINT8, 1, CU_ARRAY_CUBEMAP},
        {4, 4, 5, UINT8, 1, CU_ARRAY_CUBEMAP},
        {4, 4, 2049, UINT8, 1, CU_ARRAY_LAYERED},
    };
    new_context(0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cost_of(bad[i], CUDA_ERROR_INVALID_VALUE);
    cost_of((CUDA_ARRAY3D_DESCRIPTOR){4, 4, 6, UINT8, 1, CU_ARRAY_CUBEMAP}, CUDA_SUCCESS);
    cost_of((CUDA_ARRAY3D_DESCRIPTOR){131072, 0, 0, UINT8, 1, 0}, CUDA_SUCCESS);
    EXPECT_RC(cuArrayCreate_v2(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void what_does_not_fit_is_out_of_memory(void) {
    new_context(0);
    cost_of((CUDA_ARRAY3D_DESCRIPTOR){16384, 16384, 128, FLOAT32, 1, 0}, CUDA_ERROR_OUT_OF_MEMORY);
}

static void arrays_go_with_their_context(void) {
    CUcontext other;
    CUarray array;
    CUmipmappedArray mipmap;
    CUDA_ARRAY3D_DESCRIPTOR d = {1024, 1024, 0, FLOAT32, 1, 0};
    new_context(0);
    size_t before = free_bytes();
    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuArray3DCreate_v2(&array, &d));
    OK(cuMipmappedArrayCreate(&mipmap, &d, 5));
    OK(cuCtxDestroy_v2(other));
    EXPECT(free_bytes() == before);
    EXPECT_RC(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
}

static void a_mipmapped_array_is_the_sum_of_its_levels(void) {
    CUmipmappedArray mipmap;
    CUarray level;
    CUDA_ARRAY3D_DESCRIPTOR d = {2048, 1024, 0, FLOAT32, 1, 0}, found;
    new_context(0);
    size_t before = free_bytes();
    OK(cuMipmappedArrayCreate(&mipmap, &d, 2)); /* 8 MiB and 2 MiB */
    EXPECT(before - free_bytes() == 10 * MIB);
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 1));
    OK(cuArray3DGetDescriptor_v2(&found, level));
    EXPECT(found.Width == 1024 && found.Height == 512 && found.Depth == 0);
    EXPECT_RC(cuMipmappedArrayGetLevel(&level, mipmap, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE); /* goes with the whole */
    OK(cuMipmappedArrayDestroy(mipmap));
    EXPECT(free_bytes() == before);
    EXPECT_RC(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
}

/* "Clamped to the range [1, 1 + floor(log2(max(width, height, depth)))]." */
static void levels_end_at_one_element(void) {
    CUmipmappedArray mipmap;
    CUarray level;
    CUDA_ARRAY3D_DESCRIPTOR d = {8, 3, 0, UINT8, 1, 0}, found;
    new_context(0);
    OK(cuMipmappedArrayCreate(&mipmap, &d, 100));
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 3));
    OK(cuArray3DGetDescriptor_v2(&found, level));
    EXPECT(found.Width == 1 && found.Height == 1);
    EXPECT_RC(cuMipmappedArrayGetLevel(&level, mipmap, 4), CUDA_ERROR_INVALID_VALUE);
}

static void deferred_arrays_take_nothing_and_tell_what_they_need(void) {
    CUarray array, plain;
    CUmipmappedArray mipmap;
    CUDA_ARRAY_MEMORY_REQUIREMENTS need;
    CUDA_ARRAY3D_DESCRIPTOR d = {1024, 1024, 0, FLOAT32, 1, CU_ARRAY_DEFERRED};
    new_context(0);
    size_t before = free_bytes();
    OK(cuArray3DCreate_v2(&array, &d));
    OK(cuMipmappedArrayCreate(&mipmap, &d, 2));
    EXPECT(free_bytes() == before);
    OK(cuArrayGetMemoryRequirements(&need, array, 0));
    EXPECT(need.size == 4 * MIB && need.alignment == 65536);
    OK(cuMipmappedArrayGetMemoryRequirements(&need, mipmap, 0));
    EXPECT(need.size == 5 * MIB);
    d.Flags = 0;
    OK(cuArray3DCreate_v2(&plain, &d));
    EXPECT_RC(cuArrayGetMemoryRequirements(&need, plain, 0), CUDA_ERROR_INVALID_VALUE);
}

static const struct check checks[] = {
    CHECK(an_array_takes_padded_rows_in_granules),
    CHECK(small_arrays_share_a_granule),
    CHECK(all_ways_of_making_one_take_the_same),
    CHECK(descriptors_are_given_back),
    CHECK(bad_arrays_are_invalid),
    CHECK(what_does_not_fit_is_out_of_memory),
    CHECK(arrays_go_with_their_context),
    CHECK(a_mipmapped_array_is_the_sum_of_its_levels),
    CHECK(levels_end_at_one_element),
    CHECK(deferred_arrays_take_nothing_and_tell_what_they_need),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
