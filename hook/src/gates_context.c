/*
 * Contexts occupy the card. They are charged before they are made, and with a context goes what
 * was allocated in it: the driver frees it without a call. Closed without limits.
 */
#include "gates.h"

static bool is_primary_active(struct driver *driver, CUdevice device) {
    cuDevicePrimaryCtxGetState_fn *get = REAL(driver, cuDevicePrimaryCtxGetState);
    unsigned int flags;
    int active = 0;
    return get != NULL && get(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

/* SUCCESS with number 0 where the device is none: the driver says so. */
static CUresult begin(struct driver *driver, CUdevice device, uint32_t *number) {
    struct seat seat;
    *number = 0;
    return seat_device(driver, device, &seat) ? account_charge_context(&seat, number)
                                              : CUDA_SUCCESS;
}

static CUresult settle(uint32_t number, CUresult result, const CUcontext *context, bool primary) {
    if (result == CUDA_SUCCESS) {
        account_context_keep(number, *context, primary);
    } else {
        account_context_drop(number);
    }
    return result;
}

#define CREATE(name, device, primary, context, ...)                                                \
    uint32_t number;                                                                               \
    CUresult result = begin(driver, device, &number);                                              \
    if (result != CUDA_SUCCESS) {                                                                  \
        return result;                                                                             \
    }                                                                                              \
    result = REAL(driver, name)(context, __VA_ARGS__);                                             \
    return settle(number, result, context, primary);

CUresult gate_cuDevicePrimaryCtxRetain(struct driver *driver, CUcontext *context, CUdevice device) {
    struct seat seat;
    if (seat_device(driver, device, &seat) && account_context(&seat) != 0 &&
        is_primary_active(driver, device)) {
        return REAL(driver, cuDevicePrimaryCtxRetain)(context, device);
    }
    CREATE(cuDevicePrimaryCtxRetain, device, true, context, device)
}

CUresult gate_cuCtxCreate(struct driver *driver, CUcontext *context, unsigned int flags,
                          CUdevice device){
    CREATE(cuCtxCreate, device, false, context, flags, device)}

CUresult gate_cuCtxCreate_v2(struct driver *driver, CUcontext *context, unsigned int flags,
                             CUdevice device){
    CREATE(cuCtxCreate_v2, device, false, context, flags, device)}

CUresult
    gate_cuCtxCreate_v3(struct driver *driver, CUcontext *context, CUexecAffinityParam *affinity,
                        int count, unsigned int flags, CUdevice device){
        CREATE(cuCtxCreate_v3, device, false, context, affinity, count, flags, device)}

CUresult gate_cuCtxCreate_v4(struct driver *driver, CUcontext *context,
                             CUctxCreateParams *parameters, unsigned int flags, CUdevice device) {
    CREATE(cuCtxCreate_v4, device, false, context, parameters, flags, device)
}

/* The primary context may outlive a release: others have retained it. */
#define END_PRIMARY(name)                                                                          \
    struct seat seat;                                                                              \
    uint32_t number = seat_device(driver, device, &seat) ? account_context(&seat) : 0;             \
    CUresult result = REAL(driver, name)(device);                                                  \
    if (result == CUDA_SUCCESS && number != 0 && !is_primary_active(driver, device)) {             \
        account_context_drop(number);                                                              \
    }                                                                                              \
    return result;

CUresult gate_cuDevicePrimaryCtxRelease(struct driver *driver,
                                        CUdevice device){END_PRIMARY(cuDevicePrimaryCtxRelease)}

CUresult gate_cuDevicePrimaryCtxRelease_v2(struct driver *driver, CUdevice device){
    END_PRIMARY(cuDevicePrimaryCtxRelease_v2)}

CUresult gate_cuDevicePrimaryCtxReset(struct driver *driver,
                                      CUdevice device){END_PRIMARY(cuDevicePrimaryCtxReset)}

CUresult gate_cuDevicePrimaryCtxReset_v2(struct driver *driver, CUdevice device) {
    END_PRIMARY(cuDevicePrimaryCtxReset_v2)
}

#define DESTROY(name)                                                                              \
    struct seat seat = {.driver = driver, .handle = context};                                      \
    uint32_t number = context == NULL ? 0 : account_context(&seat);                                \
    CUresult result = REAL(driver, name)(context);                                                 \
    if (result == CUDA_SUCCESS && number != 0) {                                                   \
        account_context_drop(number);                                                              \
    }                                                                                              \
    return result;

CUresult gate_cuCtxDestroy(struct driver *driver, CUcontext context){DESTROY(cuCtxDestroy)}

CUresult gate_cuCtxDestroy_v2(struct driver *driver, CUcontext context) {
    DESTROY(cuCtxDestroy_v2)
}
