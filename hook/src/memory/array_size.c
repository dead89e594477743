/*
 * Extents times the size of an element, in the blocks of 64 bytes by 8 rows that cards of all
 * generations lay arrays out in ("group of bytes" of NVIDIA's open-gpu-doc). Memory that a driver
 * takes beyond that shows in the agent's `unaccounted`.
 */
#include "memory/array_size.h"

#include <stdbool.h>

enum { GOB_BYTES = 64, GOB_ROWS = 8 };
enum { BLOCK_EDGE = 4 }; /* block-compressed formats store 4 x 4 elements together */

/* CUarray_format of cuda.h 13.0, ranges of values with the same size. Sizes are in bits: of one
 * channel, or of an element where the format says how many channels there are. Formats with
 * subsampled colour count their mean. */
static const struct format {
    unsigned first, last, bits;
    bool per_channel, blocks;
} formats[] = {
    {0x01, 0x01, 8, true, false},   /* UNSIGNED_INT8 */
    {0x02, 0x02, 16, true, false},  /* UNSIGNED_INT16 */
    {0x03, 0x03, 32, true, false},  /* UNSIGNED_INT32 */
    {0x08, 0x08, 8, true, false},   /* SIGNED_INT8 */
    {0x09, 0x09, 16, true, false},  /* SIGNED_INT16 */
    {0x0a, 0x0a, 32, true, false},  /* SIGNED_INT32 */
    {0x10, 0x10, 16, true, false},  /* HALF */
    {0x20, 0x20, 32, true, false},  /* FLOAT */
    {0x50, 0x50, 32, false, false}, /* UNORM_INT_101010_2 */
    {0x91, 0x92, 4, false, true},   /* BC1: 8 bytes a block */
    {0x93, 0x96, 8, false, true},   /* BC2, BC3: 16 bytes a block */
    {0x97, 0x98, 4, false, true},   /* BC4 */
    {0x99, 0x9e, 8, false, true},   /* BC5, BC6H, BC7 */
    {0x9f, 0x9f, 24, false, false}, /* P010: 4:2:0, 16 bits a sample */
    {0xa1, 0xa1, 24, false, false}, /* P016 */
    {0xa2, 0xa2, 16, false, false}, /* NV16: 4:2:2 */
    {0xa3, 0xa4, 32, false, false}, /* P210, P216 */
    {0xa5, 0xa5, 16, false, false}, /* YUY2 */
    {0xa6, 0xa7, 32, false, false}, /* Y210, Y216 */
    {0xa8, 0xa9, 32, false, false}, /* AYUV, Y410 */
    {0xb0, 0xb0, 12, false, false}, /* NV12: 4:2:0 */
    {0xb1, 0xb1, 64, false, false}, /* Y416 */
    {0xb2, 0xb2, 24, false, false}, /* Y444_PLANAR8 */
    {0xb3, 0xb3, 48, false, false}, /* Y444_PLANAR10 */
    {0xb4, 0xb4, 24, false, false}, /* YUV444_8bit_SemiPlanar */
    {0xb5, 0xb5, 48, false, false}, /* YUV444_16bit_SemiPlanar */
    {0xc0, 0xc0, 8, false, false},  /* UNORM_INT8X1, X2, X4 */
    {0xc1, 0xc1, 16, false, false}, {0xc2, 0xc2, 32, false, false},
    {0xc3, 0xc3, 16, false, false}, /* UNORM_INT16X1, X2, X4 */
    {0xc4, 0xc4, 32, false, false}, {0xc5, 0xc5, 64, false, false},
    {0xc6, 0xc6, 8, false, false}, /* SNORM_INT8X1, X2, X4 */
    {0xc7, 0xc7, 16, false, false}, {0xc8, 0xc8, 32, false, false},
    {0xc9, 0xc9, 16, false, false}, /* SNORM_INT16X1, X2, X4 */
    {0xca, 0xca, 32, false, false}, {0xcb, 0xcb, 64, false, false},
};

/* A format newer than this table counts with the largest channel: the share is kept. */
static const struct format unknown = {0, 0, 32, true, false};

static const struct format *find_format(unsigned value) {
    for (unsigned i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (value >= formats[i].first && value <= formats[i].last) {
            return &formats[i];
        }
    }
    return &unknown;
}

static uint64_t at_least_one(uint64_t extent) { return extent == 0 ? 1 : extent; }

static uint64_t halved(uint64_t extent) { return at_least_one(extent / 2); }

/* To the next multiple, 0 where that isn't a number of 64 bits. */
static uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

/* One level's layers or slices. False where that isn't a number of 64 bits. */
static bool add_level(uint64_t width, uint64_t height, uint64_t depth, const struct format *format,
                      uint64_t bits, uint64_t *bytes) {
    uint64_t row, rows = height, size;
    if (format->blocks) { /* a row of blocks */
        width = round_up(width, BLOCK_EDGE);
        rows = round_up(height, BLOCK_EDGE) / BLOCK_EDGE;
        bits *= BLOCK_EDGE;
    }
    if (width == 0 || __builtin_mul_overflow(bits, width, &row)) {
        return false;
    }
    row = round_up(row / 8 + (row % 8 != 0), GOB_BYTES);
    rows = height == 0 ? 1 : round_up(rows, GOB_ROWS); /* an array without a height has one row */
    return rows != 0 && !__builtin_mul_overflow(row, rows, &size) &&
           !__builtin_mul_overflow(size, depth, &size) &&
           !__builtin_add_overflow(*bytes, size, bytes);
}

uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned levels) {
    if ((array->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) {
        return 0;
    }
    bool layered = (array->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    const struct format *format = find_format(array->Format);
    uint64_t width = at_least_one(array->Width), height = array->Height;
    uint64_t depth = at_least_one(array->Depth), bytes = 0;
    uint64_t bits = format->bits * (format->per_channel ? at_least_one(array->NumChannels) : 1);
    for (unsigned level = 0;; level++) {
        if (!add_level(width, height, depth, format, bits, &bytes)) {
            return UINT64_MAX;
        }
        /* The driver makes no more levels than it takes to come to one element. */
        if (level + 1 >= levels || (width == 1 && height <= 1 && (layered || depth == 1))) {
            return bytes;
        }
        width = halved(width);
        height = height == 0 ? 0 : halved(height);
        depth = layered ? depth : halved(depth);
    }
}
