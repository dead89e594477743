#include "hooks/current_context.h"

bool current_context_of_device(struct driver *driver, CUdevice device,
                               struct current_context *current) {
    *current = (struct current_context){.driver = driver, .device = device};
    /* On a MIG device _v2 answers the instance, the older one its card. */
    cuDeviceGetUuid_fn *get = REAL(driver, cuDeviceGetUuid_v2);
    get = get == NULL ? REAL(driver, cuDeviceGetUuid) : get;
    return get != NULL && get(&current->uuid, device) == CUDA_SUCCESS;
}

bool driver_is_initialized(struct driver *driver) {
    cuCtxGetCurrent_fn *get_context = REAL(driver, cuCtxGetCurrent);
    CUcontext handle;
    return get_context != NULL && get_context(&handle) == CUDA_SUCCESS;
}

CUresult current_context_get(struct driver *driver, struct current_context *current) {
    cuCtxGetCurrent_fn *get_context = REAL(driver, cuCtxGetCurrent);
    cuCtxGetDevice_fn *get_device = REAL(driver, cuCtxGetDevice);
    CUcontext handle = NULL;
    CUdevice device = 0;
    *current = (struct current_context){.driver = driver};
    if (get_context == NULL || get_device == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    if (get_context(&handle) != CUDA_SUCCESS || handle == NULL) {
        return CUDA_SUCCESS;
    }
    CUresult result = get_device(&device);
    if (result != CUDA_SUCCESS) {
        return result; /* a destroyed context may be current: each call says so */
    }
    if (!current_context_of_device(driver, device, current)) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    current->handle = handle;
    return CUDA_SUCCESS;
}
