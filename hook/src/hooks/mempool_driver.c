#include "hooks/mempool_driver.h"

#include "loader/capture_mode.h"
#include "memory/graph_exec.h"
#include "memory/vmm_export.h"

static uint64_t held_bytes(struct driver *driver, const struct mempool_state *state) {
    const struct mempool_name *name = &state->name;
    cuMemPoolGetAttribute_fn *of_pool = REAL(driver, cuMemPoolGetAttribute);
    cuDeviceGetGraphMemAttribute_fn *of_graphs = REAL(driver, cuDeviceGetGraphMemAttribute);
    cuuint64_t bytes = 0;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (state->destroyed) {
        return MEMPOOL_UNKNOWN;
    }
    int mode = capture_mode_exchange(driver, CAPTURE_MODE_RELAXED);
    if (name->kind == MEMPOOL_STREAM_ORDERED && of_pool != NULL) {
        result = of_pool((CUmemoryPool)(uintptr_t)name->handle,
                         CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
    } else if (name->kind == MEMPOOL_GRAPH && of_graphs != NULL) {
        result = of_graphs(name->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes);
    }
    capture_mode_exchange(driver, mode);
    return result == CUDA_SUCCESS ? bytes : MEMPOOL_UNKNOWN;
}

enum mempool_outcome mempool_driver_query(struct driver *driver, uint32_t number,
                                          const struct mempool_charge *charge, bool *gave_back) {
    struct mempool_state state;
    enum mempool_outcome outcome = MEMPOOL_STALE;
    /* The answer is stale each time that another thread has settled. */
    while (outcome == MEMPOOL_STALE && mempool_read(number, &state)) {
        outcome =
            mempool_settle(number, state.epoch, held_bytes(driver, &state), charge, gave_back);
    }
    return outcome;
}

bool mempool_driver_trim(struct driver *driver, uint32_t number) {
    struct mempool_state state;
    bool gave_back = false;
    if (!mempool_read(number, &state) || state.destroyed) {
        return false;
    }
    cuMemPoolTrimTo_fn *trim_pool = REAL(driver, cuMemPoolTrimTo);
    cuDeviceGraphMemTrim_fn *trim_graphs = REAL(driver, cuDeviceGraphMemTrim);
    int mode = capture_mode_exchange(driver, CAPTURE_MODE_RELAXED);
    if (state.name.kind == MEMPOOL_STREAM_ORDERED && trim_pool != NULL) {
        trim_pool((CUmemoryPool)(uintptr_t)state.name.handle, 0);
    } else if (state.name.kind == MEMPOOL_GRAPH && trim_graphs != NULL) {
        trim_graphs(state.name.device);
        graph_exec_trimmed();
    }
    capture_mode_exchange(driver, mode);
    mempool_driver_query(driver, number, NULL, &gave_back);
    return gave_back;
}

/* The numbers of this driver's pools, one after the other. */
static uint32_t next_of(const struct driver *driver, uint32_t number) {
    struct mempool_state state;
    do {
        number = mempool_next(number);
    } while (number != 0 && (!mempool_read(number, &state) || state.name.driver != driver));
    return number;
}

void mempool_driver_query_all(struct driver *driver) {
    for (uint32_t i = next_of(driver, 0); i != 0; i = next_of(driver, i)) {
        mempool_driver_query(driver, i, NULL, NULL);
    }
}

bool mempool_driver_reclaim(struct driver *driver) {
    bool gave_back = vmm_reclaim();
    for (uint32_t i = next_of(driver, 0); i != 0; i = next_of(driver, i)) {
        gave_back = mempool_driver_trim(driver, i) || gave_back;
    }
    return gave_back;
}

void mempool_driver_device_reset(struct driver *driver, CUdevice device) {
    mempool_device_reset(driver, device);
    mempool_driver_query_all(driver);
}

struct pointer_release pointer_release_begin(CUdeviceptr pointer) {
    struct pointer_release release = {
        .pointer = pointer, .account = account_release_begin(ALLOCATION_POINTER, pointer)};
    if (release.account.charge.context == 0) {
        release.mempool = mempool_free_begin(pointer);
    }
    return release;
}

CUresult pointer_release_end(struct driver *driver, const struct pointer_release *release,
                             CUresult result) {
    account_release_end(&release->account, result == CUDA_SUCCESS);
    if (result != CUDA_SUCCESS && release->mempool != 0) {
        mempool_allocated(release->mempool, release->pointer);
    }
    if (release->mempool != 0) {
        mempool_free_end(release->mempool);
        mempool_driver_query(driver, release->mempool, NULL, NULL);
    }
    return result;
}
