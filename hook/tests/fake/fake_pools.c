/* The fake driver's stream-ordered allocator. Frees are done at once, but their memory stays
 * reserved until a call synchronises. */
#include <string.h>

#include "fake_driver.h"
#include "fake_launch.h"

enum { MAX_POOLS = 64, MAX_GIVEN = 4096 };
enum { ATTRIBUTE_THRESHOLD = 4, ATTRIBUTE_RESERVED = 5, ATTRIBUTE_USED = 7 };

struct CUmemPoolHandle_st {
    bool alive, destroyed;
    unsigned long long reserved, used, threshold;
};

static struct CUmemPoolHandle_st pools[MAX_POOLS]; /* first the devices' default ones */
static CUmemoryPool current_pools[FAKE_CARDS] = {&pools[0], &pools[1]};
static struct {
    CUdeviceptr pointer;
    size_t bytes; /* 0: free place */
    CUmemoryPool pool;
} given[MAX_GIVEN];
static unsigned given_count; /* places ever used */
static CUdeviceptr next_pointer = UINT64_C(1) << 40;
static unsigned long long chunk = 2u << 20;

void fake_set_pool_chunk(unsigned long long bytes) { chunk = bytes; }

CUstream fake_stream_of(CUcontext context) { return (CUstream)(void *)context; }

static void set_reserved(CUmemoryPool pool, unsigned long long reserved) {
    fake_use(reserved - pool->reserved); /* at once, also where it is less */
    pool->reserved = reserved;
}

static void shrink(CUmemoryPool pool, unsigned long long keep) {
    if (pool->reserved > keep) {
        set_reserved(pool, pool->used > keep ? pool->used : keep);
    }
}

static CUresult synchronized(void) {
    fake_lock();
    for (unsigned i = 0; i < MAX_POOLS; i++) {
        shrink(&pools[i], pools[i].threshold);
    }
    fake_graphs_synchronized();
    fake_unlock();
    return CUDA_SUCCESS;
}

static CUresult take(CUmemoryPool pool, CUdeviceptr *pointer, size_t bytes) {
    if (pool == NULL || pool->destroyed || pointer == NULL || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < MAX_GIVEN; i++) {
        if (given[i].bytes == 0) {
            given_count += i == given_count;
            *pointer = given[i].pointer = next_pointer;
            given[i].bytes = bytes;
            given[i].pool = pool;
            next_pointer += (bytes + 511) / 512 * 512;
            pool->used += bytes;
            if (pool->used > pool->reserved) {
                set_reserved(pool, (pool->used + chunk - 1) / chunk * chunk);
            }
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

bool fake_pools_release(CUdeviceptr pointer) {
    for (unsigned i = 0; i < given_count; i++) {
        if (given[i].bytes != 0 && given[i].pointer == pointer) {
            CUmemoryPool pool = given[i].pool;
            pool->used -= given[i].bytes;
            given[i].bytes = 0;
            if (pool->destroyed && pool->used == 0) {
                set_reserved(pool, 0);
                pool->alive = false;
            }
            return true;
        }
    }
    return false;
}

void fake_pools_reset(CUdevice device) {
    for (unsigned i = 0; i < given_count; i++) {
        if (given[i].bytes != 0 && given[i].pool == &pools[device]) {
            fake_pools_release(given[i].pointer);
        }
    }
    shrink(&pools[device], 0);
}

static CUresult allocate(CUmemoryPool pool, CUdeviceptr *pointer, size_t bytes) {
    fake_lock();
    CUresult result = fake_allocate_call();
    result = result == CUDA_SUCCESS ? take(pool, pointer, bytes) : result;
    fake_unlock();
    return result;
}

/* A stream of fake_stream_of is its context. */
cuStreamGetCtx_fn cuStreamGetCtx;
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    *context = (CUcontext)(void *)stream;
    return CUDA_SUCCESS;
}

cuStreamIsCapturing_fn cuStreamIsCapturing;
cuMemAllocAsync_fn cuMemAllocAsync, cuMemAllocAsync_ptsz;
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    static CUdeviceptr captured = UINT64_C(1) << 45;
    CUcontext context = fake_current();
    int status = 0;
    fake_take_turn();
    if (cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != 0) {
        *pointer = captured += bytes; /* a node of the graph, and an address */
        return CUDA_SUCCESS;
    }
    if (stream != NULL && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) {
        cuStreamGetCtx(stream, &context);
    }
    return context == NULL ? CUDA_ERROR_INVALID_CONTEXT
                           : allocate(current_pools[context->device], pointer, bytes);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    return cuMemAllocAsync(pointer, bytes, stream);
}

cuMemAllocFromPoolAsync_fn cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz;
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
    (void)stream;
    return allocate(pool, pointer, bytes);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
    return cuMemAllocFromPoolAsync(pointer, bytes, pool, stream);
}

cuMemFreeAsync_fn cuMemFreeAsync, cuMemFreeAsync_ptsz;
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    int status = 0;
    fake_take_turn();
    if (cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != 0) {
        return CUDA_SUCCESS; /* a node of the graph, for any pointer */
    }
    fake_lock();
    CUresult result = fake_pools_release(pointer) ? CUDA_SUCCESS : fake_release(pointer);
    fake_unlock();
    return result;
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
    return cuMemFreeAsync(pointer, stream);
}

cuMemPoolCreate_fn cuMemPoolCreate;
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    fake_take_turn();
    if (properties == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = FAKE_CARDS; i < MAX_POOLS; i++) {
        if (!pools[i].alive) {
            pools[i] = (struct CUmemPoolHandle_st){.alive = true};
            *pool = &pools[i];
            fake_take_turn();
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

cuMemPoolDestroy_fn cuMemPoolDestroy;
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    if (pool == NULL || !pool->alive || pool->destroyed) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake_lock();
    pool->destroyed = true;
    if (pool->used == 0) {
        set_reserved(pool, 0);
        pool->alive = false;
    }
    fake_unlock();
    return CUDA_SUCCESS;
}

cuMemPoolTrimTo_fn cuMemPoolTrimTo;
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
    fake_lock();
    shrink(pool, bytes);
    fake_unlock();
    return CUDA_SUCCESS;
}

cuMemPoolGetAttribute_fn cuMemPoolGetAttribute;
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
    fake_lock();
    bool destroyed = pool->destroyed;
    if (!destroyed) {
        *(cuuint64_t *)value = attribute == ATTRIBUTE_RESERVED ? pool->reserved
                               : attribute == ATTRIBUTE_USED   ? pool->used
                                                               : pool->threshold;
    }
    fake_unlock();
    return destroyed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
    if (attribute == ATTRIBUTE_THRESHOLD) {
        fake_lock();
        memcpy(&pool->threshold, value, sizeof pool->threshold);
        fake_unlock();
    }
    return CUDA_SUCCESS;
}

cuDeviceGetDefaultMemPool_fn cuDeviceGetDefaultMemPool;
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    if (device < 0 || device >= FAKE_CARDS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pool = &pools[device];
    return CUDA_SUCCESS;
}

cuDeviceGetMemPool_fn cuDeviceGetMemPool;
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
    *pool = current_pools[device];
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    current_pools[device] = pool;
    return CUDA_SUCCESS;
}

cuMemPoolImportFromShareableHandle_fn cuMemPoolImportFromShareableHandle;
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shared, int type,
                                            cuuint64_t flags) {
    (void)type, (void)flags;
    *pool = shared;
    return CUDA_SUCCESS;
}

cuStreamSynchronize_fn cuStreamSynchronize, cuStreamSynchronize_ptsz;
CUresult cuStreamSynchronize(CUstream stream) {
    (void)stream;
    return synchronized();
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) { return cuStreamSynchronize(stream); }

cuEventSynchronize_fn cuEventSynchronize;
CUresult cuEventSynchronize(CUevent event) {
    (void)event;
    return synchronized();
}

cuCtxSynchronize_fn cuCtxSynchronize;
CUresult cuCtxSynchronize(void) { return synchronized(); }
