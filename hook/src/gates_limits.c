/* A context's limits: those of them that set memory aside. Closed without limits. */
#include "gates.h"

static size_t heap_now(struct driver *driver) {
    cuCtxGetLimit_fn *get = REAL(driver, cuCtxGetLimit);
    size_t bytes = 0;
    return get != NULL && get(&bytes, CU_LIMIT_MALLOC_HEAP_SIZE) == CUDA_SUCCESS ? bytes : 0;
}

static CUresult charge(struct driver *driver, const struct seat *seat, size_t bytes) {
    CUresult result = account_heap(seat, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && reserves_reclaim(driver)) {
        result = account_heap(seat, bytes);
    }
    return result;
}

/* Charged before where it grows; then what the driver made of it. */
static CUresult set_heap(struct driver *driver, const struct seat *seat, size_t bytes) {
    size_t before = heap_now(driver);
    CUresult result = bytes > before ? charge(driver, seat, bytes) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    cuCtxSetLimit_fn *set = REAL(driver, cuCtxSetLimit);
    result = set(CU_LIMIT_MALLOC_HEAP_SIZE, bytes);
    CUresult settled = charge(driver, seat, heap_now(driver));
    if (settled != CUDA_SUCCESS) { /* it rounded up to more than fits */
        set(CU_LIMIT_MALLOC_HEAP_SIZE, before);
        charge(driver, seat, before);
    }
    return result == CUDA_SUCCESS ? settled : result;
}

CUresult gate_cuCtxSetLimit(struct driver *driver, int limit, size_t value) {
    struct seat seat;
    if (limit != CU_LIMIT_MALLOC_HEAP_SIZE) {
        return REAL(driver, cuCtxSetLimit)(limit, value);
    }
    CUresult result = seat_current(driver, &seat);
    if (result != CUDA_SUCCESS || seat.handle == NULL) {
        return result == CUDA_SUCCESS ? REAL(driver, cuCtxSetLimit)(limit, value) : result;
    }
    return set_heap(driver, &seat, value);
}
