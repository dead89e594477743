#include "hooks/mempool_driver.h"

#include "loader/capture_mode.h"
#include "memory/graph_exec.h"
#include "memory/vmm.h"

static uint64_t held_bytes(struct driver *driver, const struct reserve_look *look) {
    const struct reserve_name *name = &look->name;
    cuMemPoolGetAttribute_fn *of_pool = REAL(driver, cuMemPoolGetAttribute);
    cuDeviceGetGraphMemAttribute_fn *of_graphs = REAL(driver, cuDeviceGetGraphMemAttribute);
    cuuint64_t bytes = 0;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (look->destroyed) {
        return RESERVE_UNKNOWN;
    }
    int mode = capture_mode_exchange(driver, CAPTURE_MODE_RELAXED);
    if (name->kind == RESERVE_POOL && of_pool != NULL) {
        result = of_pool((CUmemoryPool)(uintptr_t)name->handle,
                         CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
    } else if (name->kind == RESERVE_GRAPHS && of_graphs != NULL) {
        result = of_graphs(name->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes);
    }
    capture_mode_exchange(driver, mode);
    return result == CUDA_SUCCESS ? bytes : RESERVE_UNKNOWN;
}

enum reserve_outcome reserve_ask(struct driver *driver, uint32_t number,
                                 const struct reserve_charge *charge, bool *gave_back) {
    struct reserve_look look;
    enum reserve_outcome outcome = RESERVE_STALE;
    /* Each turn means that another thread has settled. */
    while (outcome == RESERVE_STALE && reserve_look(number, &look)) {
        outcome = reserve_settle(number, look.epoch, held_bytes(driver, &look), charge, gave_back);
    }
    return outcome;
}

bool reserve_trim(struct driver *driver, uint32_t number) {
    struct reserve_look look;
    bool gave_back = false;
    if (!reserve_look(number, &look) || look.destroyed) {
        return false;
    }
    cuMemPoolTrimTo_fn *trim_pool = REAL(driver, cuMemPoolTrimTo);
    cuDeviceGraphMemTrim_fn *trim_graphs = REAL(driver, cuDeviceGraphMemTrim);
    int mode = capture_mode_exchange(driver, CAPTURE_MODE_RELAXED);
    if (look.name.kind == RESERVE_POOL && trim_pool != NULL) {
        trim_pool((CUmemoryPool)(uintptr_t)look.name.handle, 0);
    } else if (look.name.kind == RESERVE_GRAPHS && trim_graphs != NULL) {
        trim_graphs(look.name.device);
        execs_trimmed();
    }
    capture_mode_exchange(driver, mode);
    reserve_ask(driver, number, NULL, &gave_back);
    return gave_back;
}

/* The numbers of this driver's reserves, one after the other. */
static uint32_t next_of(const struct driver *driver, uint32_t number) {
    struct reserve_look look;
    do {
        number = reserve_next(number);
    } while (number != 0 && (!reserve_look(number, &look) || look.name.driver != driver));
    return number;
}

void reserves_ask(struct driver *driver) {
    for (uint32_t i = next_of(driver, 0); i != 0; i = next_of(driver, i)) {
        reserve_ask(driver, i, NULL, NULL);
    }
}

bool reserves_reclaim(struct driver *driver) {
    bool gave_back = physical_reclaim();
    for (uint32_t i = next_of(driver, 0); i != 0; i = next_of(driver, i)) {
        gave_back = reserve_trim(driver, i) || gave_back;
    }
    return gave_back;
}

void reserves_forget(struct driver *driver, CUdevice device) {
    reserve_forget(driver, device);
    reserves_ask(driver);
}

struct freeing freeing_begin(CUdeviceptr pointer) {
    struct freeing freeing = {.pointer = pointer, .held = account_take(RECORD_POINTER, pointer)};
    if (freeing.held.charge.context == 0) {
        freeing.reserve = reserve_take(pointer);
    }
    return freeing;
}

CUresult freeing_end(struct driver *driver, const struct freeing *freeing, CUresult result) {
    if (result == CUDA_SUCCESS) {
        account_return(&freeing->held);
    } else {
        account_restore(&freeing->held);
    }
    if (result != CUDA_SUCCESS && freeing->reserve != 0) {
        reserve_gave(freeing->reserve, freeing->pointer);
    }
    if (freeing->reserve != 0) {
        reserve_freed(freeing->reserve);
        reserve_ask(driver, freeing->reserve, NULL, NULL);
    }
    return result;
}
