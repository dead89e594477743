/* Primary contexts: one a device, shared by the whole process, counted. */
#include "api.h"

static unsigned primary_flags[SIM_CARDS_MAX];

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct context *context = driver.primary[device];
    if (!context || context->destroyed)
        rc = context_make(device, primary_flags[device], 3020, true, &context);
    if (rc == CUDA_SUCCESS) {
        driver.primary[device] = context;
        context->retained++;
        *out = context;
    }
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

static CUresult release(CUdevice device, bool all) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct context *context = driver.primary[device];
    bool alive = context && !context->destroyed;
    if (!alive && !all)
        rc = CUDA_ERROR_INVALID_CONTEXT; /* released more often than retained */
    if (alive && !all)
        context->retained--;
    if (alive && (all || context->retained == 0)) {
        context_destroy(context);
        driver.primary[device] = NULL;
    }
    if (all)
        pools_reset(device);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return release(device, false); }

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return release(device, false); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return release(device, true); }

CUresult cuDevicePrimaryCtxReset(CUdevice device) { return release(device, true); }

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct context *context = driver.primary[device];
    *active = context && !context->destroyed;
    *flags = primary_flags[device];
    pthread_mutex_unlock(&driver.lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    primary_flags[device] = flags;
    if (driver.primary[device])
        driver.primary[device]->flags = flags;
    pthread_mutex_unlock(&driver.lock);
    return CUDA_SUCCESS;
}

/* Before 11.0 an active primary context could not change. */
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc == CUDA_SUCCESS && driver.primary[device])
        return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
    return rc == CUDA_SUCCESS ? cuDevicePrimaryCtxSetFlags_v2(device, flags) : rc;
}
