#include "hooks/hooks_pools.h"

#include "hooks/current_context.h"
#include "hooks/launch/hooks_launch_capture.h"
#include "hooks/mempool_driver.h"
#include "loader/capture_mode.h"
#include "memory/contexts.h"
#include "memory/pool_location.h"

bool stream_is_capturing(struct driver *driver, CUstream stream) {
    cuStreamIsCapturing_fn *get = REAL(driver, cuStreamIsCapturing);
    int status = 0;
    /* The legacy stream can't capture, and asking it while another captures is an error. */
    return stream != NULL && stream != CU_STREAM_LEGACY && get != NULL &&
           get(stream, &status) == CUDA_SUCCESS && status != 0;
}

/* The context in which a stream's memory is taken. */
static CUresult context_of_stream(struct driver *driver, CUstream stream,
                                  struct current_context *current) {
    cuStreamGetCtx_fn *get = REAL(driver, cuStreamGetCtx);
    cuCtxGetCurrent_fn *get_current = REAL(driver, cuCtxGetCurrent);
    cuCtxPushCurrent_v2_fn *push = REAL(driver, cuCtxPushCurrent_v2);
    cuCtxPopCurrent_v2_fn *pop = REAL(driver, cuCtxPopCurrent_v2);
    CUcontext own = NULL, previous = NULL;
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
        get == NULL || get_current == NULL || push == NULL || pop == NULL ||
        get(stream, &own) != CUDA_SUCCESS || get_current(&previous) != CUDA_SUCCESS ||
        own == previous || push(own) != CUDA_SUCCESS) {
        return current_context_get(driver, current);
    }
    CUresult result = current_context_get(driver, current);
    pop(&own);
    return result;
}

/* The card that a pool takes from, where the call doesn't name it: its device's, else the
 * stream's. */
static void find_device(struct driver *driver, CUmemoryPool pool, CUdevice *device) {
    cuDeviceGetDefaultMemPool_fn *get_default = REAL(driver, cuDeviceGetDefaultMemPool);
    cuDeviceGetMemPool_fn *get = REAL(driver, cuDeviceGetMemPool);
    CUmemoryPool other;
    for (CUdevice i = 0; get_default != NULL && get_default(&other, i) == CUDA_SUCCESS; i++) {
        if (other == pool || (get != NULL && get(&other, i) == CUDA_SUCCESS && other == pool)) {
            *device = i;
            return;
        }
    }
}

/* False for memory of the host. */
static bool context_of_pool(struct driver *driver, CUmemoryPool pool,
                            struct current_context *current) {
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_NONE};
    CUdevice device = current->device;
    if (!pool_location_find(pool, &location)) {
        find_device(driver, pool, &device);
    } else if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        device = location.id;
    } else if (location.type != CU_MEM_LOCATION_TYPE_NONE) {
        return false;
    }
    /* NONE: managed memory without a preferred place is charged to the card of the request. */
    return device == current->device || current_context_of_device(driver, device, current);
}

static uint64_t attribute(struct driver *driver, CUmemoryPool pool, int attribute) {
    cuuint64_t value = 0;
    cuMemPoolGetAttribute_fn *get = REAL(driver, cuMemPoolGetAttribute);
    int mode = capture_mode_exchange(driver, CAPTURE_MODE_RELAXED);
    CUresult result = get(pool, attribute, &value);
    capture_mode_exchange(driver, mode);
    return result == CUDA_SUCCESS ? value : 0;
}

/* Whether the pool may have this much without growing. */
static bool has_room(struct driver *driver, CUmemoryPool pool, uint64_t bytes) {
    uint64_t reserved = attribute(driver, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    uint64_t used = attribute(driver, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    return reserved >= used && reserved - used >= bytes;
}

static CUresult charge_pool(struct driver *driver, const struct current_context *current,
                            CUmemoryPool pool, uint64_t bytes, struct mempool_charge *charge) {
    struct mempool_name name = {.kind = MEMPOOL_STREAM_ORDERED,
                                .driver = driver,
                                .device = current->device,
                                .handle = (uint64_t)pool};
    CUresult result = mempool_charge(current, &name, bytes, charge);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && has_room(driver, pool, bytes)) {
        result = mempool_charge(current, &name, 0, charge); /* it may come from what is reserved */
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY && mempool_driver_reclaim(driver)) {
        result = mempool_charge(current, &name, bytes, charge);
    }
    return result;
}

/* `pool` NULL: the current one of the stream's device. */
static CUresult begin(struct driver *driver, CUmemoryPool pool, size_t bytes, CUstream stream,
                      struct mempool_charge *charge) {
    struct current_context current;
    cuDeviceGetMemPool_fn *get = REAL(driver, cuDeviceGetMemPool);
    *charge = (struct mempool_charge){.number = 0};
    if (stream_is_capturing(driver, stream)) {
        return CUDA_SUCCESS;
    }
    if (get == NULL || REAL(driver, cuMemPoolGetAttribute) == NULL) {
        return CUDA_ERROR_NOT_SUPPORTED; /* no driver has the one without the others */
    }
    CUresult result = context_of_stream(driver, stream, &current);
    if (result != CUDA_SUCCESS || current.handle == NULL) {
        return result;
    }
    result = context_charge_if_new(&current);
    if (result != CUDA_SUCCESS || (pool == NULL && get(&pool, current.device) != CUDA_SUCCESS) ||
        !context_of_pool(driver, pool, &current)) {
        return result;
    }
    return charge_pool(driver, &current, pool, bytes, charge);
}

/* The driver took more than fits: the memory goes back. */
static void undo(struct driver *driver, uint32_t number, CUdeviceptr pointer, CUstream stream) {
    cuMemFreeAsync_fn *release = REAL(driver, cuMemFreeAsync);
    cuStreamSynchronize_fn *synchronize = REAL(driver, cuStreamSynchronize);
    int mode = capture_mode_exchange(driver, CAPTURE_MODE_RELAXED);
    if (release != NULL && synchronize != NULL && release(pointer, stream) == CUDA_SUCCESS) {
        synchronize(stream);
    }
    capture_mode_exchange(driver, mode);
    mempool_driver_trim(driver, number);
    mempool_free_end(mempool_free_begin(pointer));
}

/* After the driver's answer: `given` is the driver's pointer, `pointer` the program's. */
static CUresult settle(struct driver *driver, struct mempool_charge *charge, CUresult result,
                       CUstream stream, CUdeviceptr given, CUdeviceptr *pointer) {
    if (charge->number != 0) {
        if (result == CUDA_SUCCESS) {
            mempool_allocated(charge->number, given);
        }
        charge->failed = result != CUDA_SUCCESS;
        enum mempool_outcome outcome = mempool_driver_query(driver, charge->number, charge, NULL);
        if (result == CUDA_SUCCESS && outcome == MEMPOOL_EXCESS) {
            undo(driver, charge->number, given, stream);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (result == CUDA_SUCCESS) {
        *pointer = given;
    }
    return result;
}

CUstream stream_named(CUstream stream, bool per_thread) {
    return stream == NULL && per_thread ? CU_STREAM_PER_THREAD : stream;
}

CUresult gate_cuMemAllocAsync(struct driver *driver, bool per_thread, CUdeviceptr *pointer,
                              size_t bytes, CUstream stream) {
    CUstream named = stream_named(stream, per_thread);
    struct mempool_charge charge;
    CUdeviceptr given = 0;
    captures_hold();
    CUresult result = begin(driver, NULL, bytes, named, &charge);
    bool begun = result == CUDA_SUCCESS;
    if (begun) {
        result = REAL_TWIN(driver, per_thread, cuMemAllocAsync)(pointer == NULL ? NULL : &given,
                                                                bytes, stream);
    }
    captures_let_go();
    return begun ? settle(driver, &charge, result, named, given, pointer) : result;
}

/* Without a pool the driver refuses, with any charge meanwhile. */
CUresult gate_cuMemAllocFromPoolAsync(struct driver *driver, bool per_thread, CUdeviceptr *pointer,
                                      size_t bytes, CUmemoryPool pool, CUstream stream) {
    CUstream named = stream_named(stream, per_thread);
    struct mempool_charge charge;
    CUdeviceptr given = 0;
    captures_hold();
    CUresult result = begin(driver, pool, bytes, named, &charge);
    bool begun = result == CUDA_SUCCESS;
    if (begun) {
        result = REAL_TWIN(driver, per_thread, cuMemAllocFromPoolAsync)(
            pointer == NULL ? NULL : &given, bytes, pool, stream);
    }
    captures_let_go();
    return begun ? settle(driver, &charge, result, named, given, pointer) : result;
}
