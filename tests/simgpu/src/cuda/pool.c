/* The stream-ordered allocator: one default pool a device.
 *
 * Memory is taken and given back at the call, not in stream order: kernels here touch no memory,
 * so no program can tell, save by watching the free bytes while work is queued. Nothing is kept
 * back after a free, as with the real pool's release threshold of 0 after a synchronisation. */
#include "api.h"

struct pool {
    uint64_t used_bytes, used_high_bytes;
    uint64_t threshold_bytes;
};
static struct pool pools[SIM_CARDS_MAX];

enum {
    ATTR_RELEASE_THRESHOLD = 4,
    ATTR_RESERVED = 5,
    ATTR_RESERVED_HIGH = 6,
    ATTR_USED = 7,
    ATTR_USED_HIGH = 8
};

void pool_account(CUdevice device, uint64_t bytes, bool take) {
    struct pool *pool = &pools[device];
    pool->used_bytes += take ? bytes : -bytes;
    if (pool->used_bytes > pool->used_high_bytes)
        pool->used_high_bytes = pool->used_bytes;
}

static CUresult check_stream(struct context **context, CUstream handle) {
    CUresult rc = context_current(context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct stream *stream = stream_of_handle(*context, handle);
    pthread_mutex_unlock(&driver.lock);
    return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
    struct context *context;
    uint64_t address = 0;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = check_stream(&context, stream);
    if (rc == CUDA_SUCCESS)
        rc = heap_allocate(context, bytes, MEMORY_POOL, false, &address);
    if (rc == CUDA_SUCCESS)
        *out = address;
    return rc;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
    return pool ? cuMemAllocAsync(out, bytes, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    struct context *context;
    CUresult rc = check_stream(&context, stream);
    return rc == CUDA_SUCCESS ? heap_free(address) : rc;
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

static CUresult pool_of_device(CUmemoryPool *out, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc == CUDA_SUCCESS && !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *out = &pools[device];
    return rc;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) {
    return pool_of_device(out, device);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device) {
    return pool_of_device(out, device);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes) {
    (void)keep_bytes; /* nothing is held back that could be trimmed */
    CUresult rc = driver_ready();
    return rc == CUDA_SUCCESS && !pool ? CUDA_ERROR_INVALID_VALUE : rc;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pool || !value || attribute < 1 || attribute > ATTR_USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    if (attribute < ATTR_RELEASE_THRESHOLD)
        *(int *)value = 1; /* all three kinds of reuse are allowed by default */
    else if (attribute == ATTR_RELEASE_THRESHOLD)
        *(uint64_t *)value = pool->threshold_bytes;
    else if (attribute == ATTR_RESERVED || attribute == ATTR_USED)
        *(uint64_t *)value = pool->used_bytes;
    else
        *(uint64_t *)value = pool->used_high_bytes;
    pthread_mutex_unlock(&driver.lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pool || !value || attribute < 1 || attribute > ATTR_USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == ATTR_RESERVED || attribute == ATTR_USED)
        return CUDA_ERROR_INVALID_VALUE; /* read-only */
    pthread_mutex_lock(&driver.lock);
    if (attribute == ATTR_RELEASE_THRESHOLD)
        pool->threshold_bytes = *(uint64_t *)value;
    else if (attribute == ATTR_RESERVED_HIGH || attribute == ATTR_USED_HIGH)
        pool->used_high_bytes = pool->used_bytes;
    pthread_mutex_unlock(&driver.lock);
    return CUDA_SUCCESS;
}
