/* cuCtxSetLimit, and the memory that limits take of the card.
 *
 * The heap of device code's malloc is taken when a module that calls it is loaded, not when the
 * limit is set, and can't change from then on (programming guide, "Dynamic Global Memory
 * Allocation"). The stack takes its size for every thread that the card can hold, from the
 * moment the limit is set; the first 1 KiB of it is part of a context's memory. */
#include <string.h>

#include "api.h"

enum { STACK, PRINTF, HEAP, SYNC_DEPTH, PENDING, L2_FETCH, L2_LINES, LIMITS };

#define STACK_DEFAULT 1024ULL
#define STACK_MAX (512ULL << 10) /* local memory of a thread, compute capability 8.0 */
#define THREADS_AN_SM 2048ULL
#define SYNC_DEPTH_MAX 24

/* The part of the stack's size beyond the context's own. */
static uint64_t stack_bytes(const struct context *context, size_t value) {
    uint64_t threads = driver.state->cards[context->card].sms * THREADS_AN_SM;
    return value > STACK_DEFAULT ? heap_charge_bytes((value - STACK_DEFAULT) * threads) : 0;
}

static CUresult set_stack(struct context *context, size_t value) {
    uint64_t wanted = stack_bytes(context, value), had = context->stack_bytes;
    if (value > STACK_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (wanted > had && !sim_memory_take(driver.state, driver.client, context->card, wanted - had))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (wanted < had)
        sim_memory_give(driver.state, driver.client, context->card, had - wanted);
    context->stack_bytes = wanted;
    return CUDA_SUCCESS;
}

static CUresult check(struct context *context, int limit, size_t value) {
    switch (limit) {
    case STACK:
        return set_stack(context, value);
    case HEAP:
        return context->heap_bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case SYNC_DEPTH:
        return value > SYNC_DEPTH_MAX ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

CUresult cuCtxSetLimit(int limit, size_t value) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (limit < 0 || limit >= LIMITS)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    pthread_mutex_lock(&driver.lock);
    rc = check(context, limit, value);
    if (rc == CUDA_SUCCESS)
        context->limits[limit] = value;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuCtxGetLimit(size_t *value, int limit) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit < 0 || limit >= LIMITS)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = context->limits[limit];
    return CUDA_SUCCESS;
}

CUresult limits_load_module(struct context *context) {
    uint64_t bytes = heap_charge_bytes(context->limits[HEAP]);
    if (context->heap_bytes || !bytes)
        return CUDA_SUCCESS;
    if (!sim_memory_take(driver.state, driver.client, context->card, bytes))
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    context->heap_bytes = bytes;
    return CUDA_SUCCESS;
}

void limits_drop(struct context *context) {
    uint64_t bytes = context->heap_bytes + context->stack_bytes;
    if (bytes)
        sim_memory_give(driver.state, driver.client, context->card, bytes);
    context->heap_bytes = context->stack_bytes = 0;
}
