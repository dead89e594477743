#include "hooks/gates.h"

bool seat_device(struct driver *driver, CUdevice device, struct seat *seat) {
    *seat = (struct seat){.driver = driver, .device = device};
    /* On a MIG device _v2 answers the instance, the older one its card. */
    cuDeviceGetUuid_fn *get = REAL(driver, cuDeviceGetUuid_v2);
    get = get == NULL ? REAL(driver, cuDeviceGetUuid) : get;
    return get != NULL && get(&seat->uuid, device) == CUDA_SUCCESS;
}

bool seat_possible(struct driver *driver) {
    cuCtxGetCurrent_fn *get_context = REAL(driver, cuCtxGetCurrent);
    CUcontext handle;
    return get_context != NULL && get_context(&handle) == CUDA_SUCCESS;
}

CUresult seat_current(struct driver *driver, struct seat *seat) {
    cuCtxGetCurrent_fn *get_context = REAL(driver, cuCtxGetCurrent);
    cuCtxGetDevice_fn *get_device = REAL(driver, cuCtxGetDevice);
    CUcontext handle = NULL;
    CUdevice device = 0;
    *seat = (struct seat){.driver = driver};
    if (get_context == NULL || get_device == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    if (get_context(&handle) != CUDA_SUCCESS || handle == NULL) {
        return CUDA_SUCCESS;
    }
    CUresult result = get_device(&device);
    if (result != CUDA_SUCCESS) {
        return result; /* a destroyed context may still be current: what every call says then */
    }
    if (!seat_device(driver, device, seat)) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    seat->handle = handle;
    return CUDA_SUCCESS;
}
