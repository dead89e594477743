/* Answers of a context about itself: flags, version. */
#include "api.h"

CUresult cuCtxGetFlags(unsigned *flags) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc == CUDA_SUCCESS && !flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *flags = context->flags;
    return rc;
}

static CUresult handle_or_current(CUcontext handle, struct context **context) {
    if (!handle)
        return context_current(context);
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    *context = context_of_handle(handle);
    pthread_mutex_unlock(&driver.lock);
    return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned *version) {
    struct context *context;
    CUresult rc = handle_or_current(handle, &context);
    if (rc == CUDA_SUCCESS && !version)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *version = context->version;
    return rc;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id) {
    struct context *context;
    CUresult rc = handle_or_current(handle, &context);
    if (rc == CUDA_SUCCESS && !id)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *id = context->id;
    return rc;
}

/* The six priorities 0..-5 of an A100. */
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(int *config) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc == CUDA_SUCCESS && !config)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *config = 0;
    return rc;
}

/* A preference that this card has no use for. */
CUresult cuCtxSetCacheConfig(int config) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc == CUDA_SUCCESS && (config < 0 || config > 3))
        return CUDA_ERROR_INVALID_VALUE;
    return rc;
}
