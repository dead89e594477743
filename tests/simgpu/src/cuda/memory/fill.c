/* cuMemset*: fills of 1, 2 and 4 byte values, each a kernel of the driver's own. Contents as in
 * copy.c. */
#include <string.h>

#include "api.h"
#include "capture.h"
#include "launch.h"

CUresult fill_now(CUdeviceptr to, unsigned value, size_t width, size_t count) {
    uint64_t bytes;
    if (!memory_find(to) || __builtin_mul_overflow(count, width, &bytes) ||
        !memory_spans(to, bytes) || to % width != 0)
        return CUDA_ERROR_INVALID_VALUE;
    bytes = memory_kept_bytes(to, bytes);
    for (uint64_t at = 0; at + width <= bytes; at += width)
        memcpy((void *)(uintptr_t)(to + at), &value, width); /* little-endian: low bytes first */
    return CUDA_SUCCESS;
}

uint64_t fill_queue(struct context *context, uint64_t after_ns, uint64_t bytes) {
    return context_queue(context, after_ns, bytes * 1000 / driver.state->timing.fill_mb_s);
}

static CUresult capture(struct stream *stream, CUdeviceptr to, unsigned value, size_t width,
                        size_t count) {
    struct node *node = capture_node(stream, NODE_MEMSET);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->fill = (CUDA_MEMSET_NODE_PARAMS){to, 0, value, (unsigned)width, count, 1};
    return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr to, unsigned value, size_t width, size_t count, CUstream handle) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS || count == 0)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = stream_of_handle(context, handle);
    rc = stream ? capture_enter(stream) : CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS && stream->capture) {
        rc = capture(stream, to, value, width, count);
    } else if (rc == CUDA_SUCCESS) {
        rc = fill_now(to, value, width, count);
        if (rc == CUDA_SUCCESS)
            stream_after(stream, fill_queue(stream->context, stream_front(stream), width * count));
    }
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
