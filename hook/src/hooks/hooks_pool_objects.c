#include "hooks/hooks_pool_objects.h"

#include "hooks/hooks_memory.h"
#include "hooks/hooks_pools.h"
#include "memory/pool_location.h"

/* Captured, it is a node of the graph, of what the graph allocates: nothing is given back now. */
#define RELEASE_ASYNC(name, pointer, stream, named)                                                \
    if (stream_is_capturing(driver, named)) {                                                      \
        return REAL(driver, name)(pointer, stream);                                                \
    }                                                                                              \
    RELEASE_POINTER(name, pointer, pointer, stream)

CUresult gate_cuMemFreeAsync(struct driver *driver, CUdeviceptr pointer, CUstream stream){
    RELEASE_ASYNC(cuMemFreeAsync, pointer, stream, stream)}

CUresult gate_cuMemFreeAsync_ptsz(struct driver *driver, CUdeviceptr pointer, CUstream stream){
    RELEASE_ASYNC(cuMemFreeAsync_ptsz, pointer, stream, stream_per_thread(stream))}

CUresult gate_cuMemPoolCreate(struct driver *driver, CUmemoryPool *pool,
                              const CUmemPoolProps *properties) {
    CUresult result = REAL(driver, cuMemPoolCreate)(pool, properties);
    if (result == CUDA_SUCCESS) {
        pool_location_put(*pool, &properties->location);
    }
    return result;
}

/* What lies in it is the exporter's, and nothing can be allocated from it. */
CUresult gate_cuMemPoolImportFromShareableHandle(struct driver *driver, CUmemoryPool *pool,
                                                 void *shared, int type, cuuint64_t flags) {
    static const CUmemLocation elsewhere = {.type = -1};
    CUresult result = REAL(driver, cuMemPoolImportFromShareableHandle)(pool, shared, type, flags);
    if (result == CUDA_SUCCESS) {
        pool_location_put(*pool, &elsewhere);
    }
    return result;
}

CUresult gate_cuMemGetDefaultMemPool(struct driver *driver, CUmemoryPool *pool,
                                     CUmemLocation *location, int type) {
    CUresult result = REAL(driver, cuMemGetDefaultMemPool)(pool, location, type);
    if (result == CUDA_SUCCESS) {
        pool_location_put(*pool, location);
    }
    return result;
}

CUresult gate_cuMemGetMemPool(struct driver *driver, CUmemoryPool *pool, CUmemLocation *location,
                              int type) {
    CUresult result = REAL(driver, cuMemGetMemPool)(pool, location, type);
    if (result == CUDA_SUCCESS) {
        pool_location_put(*pool, location);
    }
    return result;
}

CUresult gate_cuMemPoolDestroy(struct driver *driver, CUmemoryPool pool) {
    CUmemLocation location;
    bool known = pool_location_find(pool, &location);
    uint32_t mempool = mempool_destroy_begin(driver, (uint64_t)pool);
    pool_location_drop(pool); /* before its handle is given out again */
    CUresult result = REAL(driver, cuMemPoolDestroy)(pool);
    if (result != CUDA_SUCCESS && known) {
        pool_location_put(pool, &location);
    }
    mempool_destroy_end(mempool, result == CUDA_SUCCESS);
    return result;
}

/* After a call at which the driver may have given memory back. */
#define ASK_AFTER(name, ...)                                                                       \
    CUresult result = REAL(driver, name)(__VA_ARGS__);                                             \
    mempool_driver_query_all(driver);                                                              \
    return result;

CUresult gate_cuMemPoolTrimTo(struct driver *driver, CUmemoryPool pool,
                              size_t bytes){ASK_AFTER(cuMemPoolTrimTo, pool, bytes)}

CUresult gate_cuStreamSynchronize(struct driver *driver,
                                  CUstream stream){ASK_AFTER(cuStreamSynchronize, stream)}

CUresult gate_cuStreamSynchronize_ptsz(struct driver *driver,
                                       CUstream stream){ASK_AFTER(cuStreamSynchronize_ptsz, stream)}

CUresult gate_cuEventSynchronize(struct driver *driver,
                                 CUevent event){ASK_AFTER(cuEventSynchronize, event)}

CUresult gate_cuCtxSynchronize(struct driver *driver){ASK_AFTER(cuCtxSynchronize)}

CUresult gate_cuCtxSynchronize_v2(struct driver *driver, CUcontext context) {
    ASK_AFTER(cuCtxSynchronize_v2, context)
}
