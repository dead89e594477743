#include "hooks/hooks_pool_objects.h"

#include "hooks/current_context.h"
#include "hooks/hooks_pools.h"
#include "hooks/launch/hooks_launch.h"
#include "hooks/launch/hooks_launch_capture.h"
#include "hooks/mempool_driver.h"
#include "memory/pool_location.h"

/* A captured free is a node of the graph, for the graph's own memory: it gives no memory back
 * now. */
CUresult gate_cuMemFreeAsync(struct driver *driver, bool per_thread, CUdeviceptr pointer,
                             CUstream stream) {
    cuMemFreeAsync_fn *release_async = REAL_TWIN(driver, per_thread, cuMemFreeAsync);
    struct pointer_release release = {.pointer = pointer};
    captures_hold();
    bool captured = stream_is_capturing(driver, stream_named(stream, per_thread));
    if (!captured) {
        release = pointer_release_begin(pointer);
    }
    CUresult result = release_async(pointer, stream);
    captures_let_go();
    return captured ? result : pointer_release_end(driver, &release, result);
}

/* After the driver's answer, which the function returns. */
static CUresult put(CUresult result, CUmemoryPool given, const CUmemLocation *location,
                    CUmemoryPool *pool) {
    if (result == CUDA_SUCCESS) {
        pool_location_put(given, location);
        *pool = given;
    }
    return result;
}

CUresult gate_cuMemPoolCreate(struct driver *driver, CUmemoryPool *pool,
                              const CUmemPoolProps *properties) {
    CUmemoryPool given = NULL;
    properties = READ_ONCE(driver, properties);
    CUresult result = REAL(driver, cuMemPoolCreate)(pool == NULL ? NULL : &given, properties);
    return put(result, given, properties == NULL ? NULL : &properties->location, pool);
}

/* Its memory is the exporter's, and no call can allocate from it. */
CUresult gate_cuMemPoolImportFromShareableHandle(struct driver *driver, CUmemoryPool *pool,
                                                 void *shared, int type, cuuint64_t flags) {
    static const CUmemLocation elsewhere = {.type = -1};
    CUmemoryPool given = NULL;
    CUresult result = REAL(driver, cuMemPoolImportFromShareableHandle)(pool == NULL ? NULL : &given,
                                                                       shared, type, flags);
    return put(result, given, &elsewhere, pool);
}

CUresult gate_cuMemGetDefaultMemPool(struct driver *driver, CUmemoryPool *pool,
                                     CUmemLocation *location, int type) {
    CUmemoryPool given = NULL;
    location = READ_ONCE(driver, location);
    CUresult result =
        REAL(driver, cuMemGetDefaultMemPool)(pool == NULL ? NULL : &given, location, type);
    return put(result, given, location, pool);
}

CUresult gate_cuMemGetMemPool(struct driver *driver, CUmemoryPool *pool, CUmemLocation *location,
                              int type) {
    CUmemoryPool given = NULL;
    location = READ_ONCE(driver, location);
    CUresult result = REAL(driver, cuMemGetMemPool)(pool == NULL ? NULL : &given, location, type);
    return put(result, given, location, pool);
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

/* After a call at which the driver may have given memory back. Returns the driver's answer. */
static CUresult query_after(struct driver *driver, CUresult result) {
    mempool_driver_query_all(driver);
    return result;
}

CUresult gate_cuMemPoolTrimTo(struct driver *driver, CUmemoryPool pool, size_t bytes) {
    return query_after(driver, REAL(driver, cuMemPoolTrimTo)(pool, bytes));
}

/* After a call that has waited for work. */
static CUresult settle_after(struct driver *driver, CUresult result) {
    launch_settle_current(driver);
    return query_after(driver, result);
}

CUresult gate_cuStreamSynchronize(struct driver *driver, bool per_thread, CUstream stream) {
    return settle_after(driver, REAL_TWIN(driver, per_thread, cuStreamSynchronize)(stream));
}

CUresult gate_cuEventSynchronize(struct driver *driver, CUevent event) {
    return settle_after(driver, REAL(driver, cuEventSynchronize)(event));
}

CUresult gate_cuCtxSynchronize(struct driver *driver) {
    return settle_after(driver, REAL(driver, cuCtxSynchronize)());
}

CUresult gate_cuCtxSynchronize_v2(struct driver *driver, CUcontext context) {
    return settle_after(driver, REAL(driver, cuCtxSynchronize_v2)(context));
}
