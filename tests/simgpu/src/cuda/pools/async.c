/* Stream-ordered allocations: cuMemAllocAsync and its kin. */
#include "api.h"
#include "capture.h"

/* The stream of a handle, or NULL; driver.lock held. */
static CUresult find_stream(CUstream handle, struct context **context, struct stream **stream) {
    CUresult rc = context_current(context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    *stream = stream_of_handle(*context, handle);
    rc = *stream ? capture_enter(*stream) : CUDA_ERROR_INVALID_HANDLE;
    if (rc != CUDA_SUCCESS)
        pthread_mutex_unlock(&driver.lock);
    return rc;
}

static CUresult take(struct pool *pool, struct stream *stream, uint64_t bytes, uint64_t *address) {
    struct block *block = block_take(pool, stream, bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct memory memory = {.base = block->base,
                            .bytes = bytes,
                            .kind = MEMORY_POOL,
                            .device = pool->device,
                            .block = block};
    if (!memory_add(&memory)) {
        block_give(block, NULL);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = block->base;
    return CUDA_SUCCESS;
}

/* pool NULL: the current one of the stream's device. */
static CUresult allocate(CUdeviceptr *out, uint64_t bytes, CUmemoryPool handle, bool from_pool,
                         CUstream stream_handle) {
    struct context *context;
    struct stream *stream;
    uint64_t address = 0;
    if (!out || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = find_stream(stream_handle, &context, &stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct pool *pool = from_pool ? pool_find(handle) : pool_current(stream->context->device);
    if (!pool || pool->imported)
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (stream->capture)
        rc = capture_allocate(stream, pool->device, bytes, &address);
    else
        rc = take(pool, stream, bytes, &address);
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS)
        *out = address;
    return rc;
}

void block_free(struct memory memory, struct stream *stream) {
    memory_remove(memory.base);
    block_give(memory.block, stream);
    pool_settle(memory.block->chunk->pool);
}

/* Memory of no pool is given back at the call: work here touches no memory, so a program can tell
 * only by watching the free bytes while work is queued. */
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream_handle) {
    struct context *context;
    struct stream *stream;
    CUresult rc = find_stream(stream_handle, &context, &stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    const struct memory *memory = memory_find(address);
    rc = CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        rc = capture_free(stream, address);
    else if (memory && memory->base == address && memory->kind != MEMORY_EXTERNAL)
        rc = memory_release(*memory, stream);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
    return allocate(out, bytes, NULL, false, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
    return allocate(out, bytes, pool, true, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream) {
    return cuMemAllocAsync(out, bytes, own_stream(stream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
    return cuMemAllocFromPoolAsync(out, bytes, pool, own_stream(stream));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
    return cuMemFreeAsync(address, own_stream(stream));
}
