/* Arrays: extents of 0 count as 1, channels and formats as they are, levels of detail together. */
#include "support.h"

static uint64_t taken;

static void expect(uint64_t bytes) {
    taken = ledger_sum_bytes() - CONTEXT_BYTES;
    CHECK(taken == bytes);
}

static CUDA_ARRAY3D_DESCRIPTOR described(size_t width, size_t height, size_t depth, unsigned format,
                                         unsigned channels, unsigned flags) {
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = width,
                                     .Height = height,
                                     .Depth = depth,
                                     .Format = format,
                                     .NumChannels = channels,
                                     .Flags = flags};
}

static void expect_array(CUDA_ARRAY3D_DESCRIPTOR description, uint64_t bytes) {
    CUarray array;
    CHECK(CUDA(cuArray3DCreate_v2)(&array, &description) == CUDA_SUCCESS);
    expect(bytes);
    CHECK(CUDA(cuArrayDestroy)(array) == CUDA_SUCCESS);
    expect(0);
    CHECK(CUDA(cuArrayDestroy)(array) == 1); /* twice */
    expect(0);
}

static void expect_mipmap(CUDA_ARRAY3D_DESCRIPTOR description, unsigned levels, uint64_t bytes) {
    CUmipmappedArray array;
    CHECK(CUDA(cuMipmappedArrayCreate)(&array, &description, levels) == CUDA_SUCCESS);
    expect(bytes);
    CHECK(CUDA(cuMipmappedArrayDestroy)(array) == CUDA_SUCCESS);
    expect(0);
}

static void expect_sizes(void) {
    enum { INT8 = 1, FLOAT = 0x20, BC1 = 0x91, NV12 = 0xb0, NEWER = 0x7000 };
    expect_array(described(4 * MIB, 0, 0, INT8, 1, 0), 4 * MIB);
    expect_array(described(1024, 1024, 0, FLOAT, 4, 0), 16 * MIB); /* not 8 times that */
    expect_array(described(128, 128, 128, FLOAT, 2, 0), 16 * MIB);
    expect_array(described(1024, 0, 1024, FLOAT, 1, CUDA_ARRAY3D_LAYERED), 4 * MIB);
    expect_array(described(4096, 4096, 0, BC1, 4, 0), 8 * MIB);
    expect_array(described(4096, 4096, 0, NV12, 3, 0), 24 * MIB);
    expect_array(described(1, 65536, 0, INT8, 1, 0), 4 * MIB);  /* rows of 64 bytes */
    expect_array(described(65536, 1, 16, INT8, 1, 0), 8 * MIB); /* 8 rows a block */
    expect_array(described(1024, 1024, 0, NEWER, 4, 0), 16 * MIB);
    expect_array(described(1, 0, 0, INT8, 1, 0), 2 * MIB); /* shares a page, like all small ones */
    expect_array(described(8192, 8192, 64, FLOAT, 4, CUDA_ARRAY3D_SPARSE), 0);
    expect_array(described(8192, 8192, 64, FLOAT, 4, CUDA_ARRAY3D_DEFERRED_MAPPING), 0);

    expect_mipmap(described(1024, 1024, 0, FLOAT, 4, 0), 1, 16 * MIB);
    expect_mipmap(described(1024, 1024, 0, FLOAT, 4, 0), 2, 20 * MIB);
    expect_mipmap(described(1024, 1024, 0, FLOAT, 4, 0), 99, 22 * MIB); /* 21.33 MiB */
    expect_mipmap(described(256, 256, 64, FLOAT, 1, 0), 2, 18 * MIB);
    expect_mipmap(described(256, 256, 64, FLOAT, 1, CUDA_ARRAY3D_LAYERED), 2, 20 * MIB);
}

static void expect_all_entry_points(void) {
    CUDA_ARRAY_DESCRIPTOR flat = {1024, 1024, 1, 4};
    CUDA_ARRAY_DESCRIPTOR_v1 flat1 = {1024, 1024, 1, 4};
    CUDA_ARRAY3D_DESCRIPTOR_v1 deep1 = {1024, 1024, 0, 1, 4, 0};
    CUarray arrays[3];
    CHECK(CUDA(cuArrayCreate_v2)(&arrays[0], &flat) == CUDA_SUCCESS);
    CHECK(CUDA(cuArrayCreate)(&arrays[1], &flat1) == CUDA_SUCCESS);
    CHECK(CUDA(cuArray3DCreate)(&arrays[2], &deep1) == CUDA_SUCCESS);
    expect(12 * MIB);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(CUDA(cuArrayDestroy)(arrays[i]) == CUDA_SUCCESS);
    }
    expect(0);
    CHECK(CUDA(cuArrayCreate_v2)(&arrays[0], NULL) == 1);
    expect(0);
}

/* The driver's size of an array counts, where it tells one: more, less, and more than fits. */
static void expect_drivers_word(void) {
    void (*say)(unsigned long long) =
        (void (*)(unsigned long long))cuda_function("fake_set_array_bytes");
    say(32 * MIB);
    expect_array(described(1024, 1024, 0, 1, 4, 0), 32 * MIB);
    say(2 * MIB);
    expect_mipmap(described(1024, 1024, 0, 1, 4, 0), 3, 2 * MIB);
    say(SHARE_BYTES);
    CUDA_ARRAY3D_DESCRIPTOR description = described(1024, 1024, 0, 1, 4, 0);
    CUarray array = NULL;
    CHECK(CUDA(cuArray3DCreate_v2)(&array, &description) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(array == NULL);
    expect(0);
    say(0);
}

static void expect_limit(void) {
    unsigned long (*calls)(void) = (unsigned long (*)(void))cuda_function("fake_allocations");
    void (*fail_next)(CUresult) = (void (*)(CUresult))cuda_function("fake_fail_next");
    CUDA_ARRAY3D_DESCRIPTOR huge = described(SIZE_MAX, SIZE_MAX, 2, 1, 1, 0);
    CUDA_ARRAY3D_DESCRIPTOR all = described(SHARE_BYTES - CONTEXT_BYTES, 0, 0, 1, 1, 0);
    CUarray array;
    unsigned long before = calls();
    CHECK(CUDA(cuArray3DCreate_v2)(&array, &huge) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(calls() == before); /* the driver wasn't asked */
    fail_next(999);
    CHECK(CUDA(cuArray3DCreate_v2)(&array, &all) == 999);
    expect(0);
    CHECK(CUDA(cuArray3DCreate_v2)(&array, &all) == CUDA_SUCCESS);
    CHECK(try_allocate(1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(CUDA(cuArrayDestroy)(array) == CUDA_SUCCESS);
}

/* A context's arrays go with it, and a handle that is given out again is a new one. */
static void expect_end_with_context(void) {
    CUDA_ARRAY3D_DESCRIPTOR description = described(4 * MIB, 0, 0, 1, 1, 0);
    CUarray array;
    CUmipmappedArray mipmap;
    CUcontext context, primary;
    CUDA(cuDevicePrimaryCtxRetain)(&primary, 0);
    CHECK(CUDA(cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
    CHECK(CUDA(cuArray3DCreate_v2)(&array, &description) == CUDA_SUCCESS);
    CHECK(CUDA(cuMipmappedArrayCreate)(&mipmap, &description, 1) == CUDA_SUCCESS);
    expect(CONTEXT_BYTES + 8 * MIB);
    CHECK(CUDA(cuCtxDestroy_v2)(context) == CUDA_SUCCESS);
    expect(0);
    CHECK(CUDA(cuArrayDestroy)(array) == 1);
    expect(0);
}

int main(void) {
    files_make();
    context_make(0);
    expect_sizes();
    expect_all_entry_points();
    expect_drivers_word();
    expect_limit();
    expect_end_with_context();
    return 0;
}
