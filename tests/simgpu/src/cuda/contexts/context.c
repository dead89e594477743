/* Contexts: made and destroyed, and the calling thread's stack of them. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "capture.h"

#define STACK_MAX 64 /* the real driver has no stated bound; programs nest two or three */

static __thread struct {
    struct context *items[STACK_MAX];
    int depth;
} stack;

static struct context *top(void) { return stack.depth ? stack.items[stack.depth - 1] : NULL; }

CUresult context_current(struct context **context) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    *context = top();
    if (!*context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return (*context)->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

/* A context that we made and that is not destroyed, or NULL. */
struct context *context_of_handle(CUcontext handle) {
    for (struct context *at = driver.contexts; at; at = at->next)
        if (at == handle)
            return at->destroyed ? NULL : at;
    return NULL;
}

static void count_context(const struct context *context, int change) {
    sim_lock(driver.state);
    driver.state->clients[driver.client].use[context->card].contexts += (uint32_t)change;
    sim_unlock(driver.state);
}

CUresult context_make(CUdevice device, unsigned flags, unsigned version, bool primary,
                      struct context **out) {
    static unsigned long long next_id = 1;
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sim_memory_take(driver.state, driver.client, card, CONTEXT_BYTES))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct context *context = calloc(1, sizeof *context);
    if (!context) {
        sim_memory_give(driver.state, driver.client, card, CONTEXT_BYTES);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->device = device;
    context->card = card;
    context->flags = flags;
    context->version = version;
    context->primary = primary;
    context->id = next_id++;
    /* Stack, printf and malloc heap sizes of an A100's fresh context. */
    memcpy(context->limits, (size_t[8]){1024, 1048576, 8388608, 2, 2048, 128, 31457280}, 64);
    context->legacy.context = context;
    context->next = driver.contexts;
    driver.contexts = context;
    count_context(context, 1);
    *out = context;
    return CUDA_SUCCESS;
}

/* The struct stays, so that a thread that still has it as current gets CONTEXT_IS_DESTROYED. */
void context_destroy(struct context *context) {
    context->destroyed = true;
    streams_drop(context);
    events_drop(context);
    modules_drop(context);
    arrays_drop(context);
    externals_drop(context);
    limits_drop(context);
    heap_drop(context);
    count_context(context, -1);
    sim_memory_give(driver.state, driver.client, context->card, CONTEXT_BYTES);
}

static CUresult push(struct context *context) {
    if (stack.depth == STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack.items[stack.depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice device, unsigned version) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *context;
    pthread_mutex_lock(&driver.lock);
    rc = context_make(device, flags, version, false, &context);
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS)
        rc = push(context);
    if (rc == CUDA_SUCCESS)
        *out = context;
    return rc;
}

CUresult cuCtxCreate(CUcontext *out, unsigned flags, CUdevice device) {
    return create(out, flags, device, 3010);
}

CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device) {
    return create(out, flags, device, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned flags,
                        CUdevice device) {
    if (count != 0 && !affinity)
        return CUDA_ERROR_INVALID_VALUE;
    return create(out, flags, device, 3020);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct context *context = context_of_handle(handle);
    if (!context)
        rc = CUDA_ERROR_INVALID_CONTEXT;
    else if (context->primary)
        rc = CUDA_ERROR_INVALID_CONTEXT; /* primary contexts are released, not destroyed */
    else
        context_destroy(context);
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS && top() == context)
        stack.depth--;
    return rc;
}

CUresult cuCtxDestroy(CUcontext handle) { return cuCtxDestroy_v2(handle); }

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct context *context = context_of_handle(handle);
    pthread_mutex_unlock(&driver.lock);
    return context ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPushCurrent(CUcontext handle) { return cuCtxPushCurrent_v2(handle); }

CUresult cuCtxPopCurrent_v2(CUcontext *out) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!stack.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct context *context = stack.items[--stack.depth];
    if (out)
        *out = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *out) { return cuCtxPopCurrent_v2(out); }

/* Replaces the top; NULL takes it away. */
CUresult cuCtxSetCurrent(CUcontext handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!handle) {
        stack.depth -= stack.depth > 0;
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&driver.lock);
    struct context *context = context_of_handle(handle);
    pthread_mutex_unlock(&driver.lock);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack.depth -= stack.depth > 0;
    return push(context);
}

CUresult cuCtxGetCurrent(CUcontext *out) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = top();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *out) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = capture_refuse_context(context);
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS) {
        context_wait(context);
        pools_synchronized(context->card);
    }
    return rc;
}
