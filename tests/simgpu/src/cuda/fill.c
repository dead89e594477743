/* cuMemset*: fills of 1, 2 and 4 byte values. Contents as in copy.c. */
#include <string.h>

#include "api.h"

#define CONTENT_BYTES (64ULL << 20)

static CUresult write_values(CUdeviceptr to, unsigned value, size_t width, size_t count) {
    uint64_t bytes;
    const struct memory *memory = memory_find(to);
    if (!memory || __builtin_mul_overflow(count, width, &bytes) ||
        bytes > memory->bytes - (to - memory->base) || to % width != 0)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t offset = to - memory->base;
    uint64_t left = offset < CONTENT_BYTES ? CONTENT_BYTES - offset : 0;
    bytes = bytes < left ? bytes : left;
    for (uint64_t at = 0; at + width <= bytes; at += width)
        memcpy((void *)(uintptr_t)(to + at), &value, width); /* little-endian: low bytes first */
    return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr to, unsigned value, size_t width, size_t count, CUstream handle) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS || count == 0)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = stream_of_handle(context, handle) ? write_values(to, value, width, count)
                                           : CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* A fill returns before it is done, also the one without a stream. */
#define FILLS(bits, type)                                                                          \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count) {                      \
        return fill(to, value, sizeof value, count, NULL);                                         \
    }                                                                                              \
    CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr to, type value, size_t count) {                 \
        return fill(to, value, sizeof value, count, CU_STREAM_PER_THREAD);                         \
    }                                                                                              \
    CUresult cuMemsetD##bits(CUdeviceptr_v1 to, type value, unsigned count) {                      \
        return fill(to, value, sizeof value, count, NULL);                                         \
    }                                                                                              \
    CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) {   \
        return fill(to, value, sizeof value, count, stream);                                       \
    }                                                                                              \
    CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr to, type value, size_t count,                 \
                                         CUstream stream) {                                        \
        return fill(to, value, sizeof value, count, own_stream(stream));                           \
    }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)
