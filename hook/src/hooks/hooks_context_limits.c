#include "hooks/hooks_context_limits.h"

#include "hooks/current_context.h"
#include "hooks/mempool_driver.h"
#include "memory/context_reserve.h"

/* The part of each that every context has. CUDA C++ Programming Guide, "Heap Memory Allocation": 8
 * MB; cuCtxGetLimit says 1 KiB of a new context's stack. */
#define DEFAULT_HEAP_BYTES ((uint64_t)8 << 20)
#define DEFAULT_STACK_BYTES ((uint64_t)1 << 10)

/* Threads that the card can hold at once: each has its stack there. 0 where the driver doesn't
 * tell. */
static uint64_t threads_of(struct driver *driver, CUdevice device) {
    cuDeviceGetAttribute_fn *get = REAL(driver, cuDeviceGetAttribute);
    int processors = 0, threads = 0;
    bool known =
        get != NULL &&
        get(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) == CUDA_SUCCESS &&
        get(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device) == CUDA_SUCCESS &&
        processors > 0 && threads > 0;
    return known ? (uint64_t)processors * (uint64_t)threads : 0;
}

/* The memory that a limit takes beyond a context's own part. */
static uint64_t beyond_default(struct driver *driver, const struct current_context *current,
                               enum context_reserve reserve, size_t value) {
    if (reserve == CONTEXT_RESERVE_HEAP) {
        return value > DEFAULT_HEAP_BYTES ? value - DEFAULT_HEAP_BYTES : 0;
    }
    uint64_t threads = value > DEFAULT_STACK_BYTES ? threads_of(driver, current->device) : 0;
    uint64_t each = value - DEFAULT_STACK_BYTES;
    return threads != 0 && each > UINT64_MAX / threads ? UINT64_MAX : each * threads;
}

static CUresult charge(struct driver *driver, const struct current_context *current,
                       enum context_reserve reserve, size_t value) {
    uint64_t bytes = beyond_default(driver, current, reserve, value);
    CUresult result = context_reserve_set(current, reserve, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && mempool_driver_reclaim(driver)) {
        result = context_reserve_set(current, reserve, bytes);
    }
    return result;
}

static size_t limit_now(struct driver *driver, int limit) {
    cuCtxGetLimit_fn *get = REAL(driver, cuCtxGetLimit);
    size_t value = 0;
    return get != NULL && get(&value, limit) == CUDA_SUCCESS ? value : 0;
}

/* Charged before where the limit grows; then charged as the driver has set it. */
static CUresult set_limit(struct driver *driver, const struct current_context *current,
                          enum context_reserve reserve, int limit, size_t value) {
    size_t before = limit_now(driver, limit);
    CUresult result = value > before ? charge(driver, current, reserve, value) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    cuCtxSetLimit_fn *set = REAL(driver, cuCtxSetLimit);
    result = set(limit, value);
    CUresult settled = charge(driver, current, reserve, limit_now(driver, limit));
    if (settled != CUDA_SUCCESS) { /* the driver rounded up to more than fits */
        set(limit, before);
        charge(driver, current, reserve, before);
    }
    return result == CUDA_SUCCESS ? settled : result;
}

CUresult gate_cuCtxSetLimit(struct driver *driver, int limit, size_t value) {
    struct current_context current;
    if (limit != CU_LIMIT_MALLOC_HEAP_SIZE && limit != CU_LIMIT_STACK_SIZE) {
        return REAL(driver, cuCtxSetLimit)(limit, value);
    }
    CUresult result = current_context_get(driver, &current);
    if (result != CUDA_SUCCESS || current.handle == NULL) {
        return result == CUDA_SUCCESS ? REAL(driver, cuCtxSetLimit)(limit, value) : result;
    }
    enum context_reserve reserve =
        limit == CU_LIMIT_STACK_SIZE ? CONTEXT_RESERVE_STACKS : CONTEXT_RESERVE_HEAP;
    return set_limit(driver, &current, reserve, limit, value);
}
