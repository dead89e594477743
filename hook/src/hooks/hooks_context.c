#include "hooks/hooks_context.h"

#include "hooks/current_context.h"
#include "hooks/launch/hooks_launch.h"
#include "hooks/mempool_driver.h"
#include "memory/contexts.h"

static bool is_primary_active(struct driver *driver, CUdevice device) {
    cuDevicePrimaryCtxGetState_fn *get = REAL(driver, cuDevicePrimaryCtxGetState);
    unsigned int flags;
    int active = 0;
    return get != NULL && get(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

/* A context between its charge and the driver's answer, which gives it its handle. */
struct creation {
    struct current_context made;
    uint32_t number;
};

/* SUCCESS with number 0 where the device doesn't exist: the driver refuses it. */
static CUresult begin(struct driver *driver, CUdevice device, bool primary,
                      struct creation *creation) {
    creation->number = 0;
    if (!current_context_of_device(driver, device, &creation->made)) {
        return CUDA_SUCCESS;
    }
    CUresult result = context_charge_new(&creation->made, primary, &creation->number);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && mempool_driver_reclaim(driver)) {
        result = context_charge_new(&creation->made, primary, &creation->number);
    }
    return result;
}

/* After the driver's answer, which the function returns. */
static CUresult settle(const struct creation *creation, CUresult result, CUcontext *context) {
    if (result == CUDA_SUCCESS) {
        context_keep(creation->number, &creation->made);
        *context = creation->made.handle;
    } else {
        context_cancel(creation->number);
    }
    return result;
}

CUresult gate_cuDevicePrimaryCtxRetain(struct driver *driver, CUcontext *context, CUdevice device) {
    struct creation creation;
    CUresult result = begin(driver, device, true, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuDevicePrimaryCtxRetain)(context == NULL ? NULL : &creation.made.handle,
                                                    device);
    return settle(&creation, result, context);
}

CUresult gate_cuCtxCreate(struct driver *driver, CUcontext *context, unsigned int flags,
                          CUdevice device) {
    struct creation creation;
    CUresult result = begin(driver, device, false, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result =
        REAL(driver, cuCtxCreate)(context == NULL ? NULL : &creation.made.handle, flags, device);
    return settle(&creation, result, context);
}

CUresult gate_cuCtxCreate_v2(struct driver *driver, CUcontext *context, unsigned int flags,
                             CUdevice device) {
    struct creation creation;
    CUresult result = begin(driver, device, false, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result =
        REAL(driver, cuCtxCreate_v2)(context == NULL ? NULL : &creation.made.handle, flags, device);
    return settle(&creation, result, context);
}

CUresult gate_cuCtxCreate_v3(struct driver *driver, CUcontext *context,
                             CUexecAffinityParam *affinity, int count, unsigned int flags,
                             CUdevice device) {
    struct creation creation;
    CUresult result = begin(driver, device, false, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuCtxCreate_v3)(context == NULL ? NULL : &creation.made.handle, affinity,
                                          count, flags, device);
    return settle(&creation, result, context);
}

CUresult gate_cuCtxCreate_v4(struct driver *driver, CUcontext *context,
                             CUctxCreateParams *parameters, unsigned int flags, CUdevice device) {
    struct creation creation;
    CUresult result = begin(driver, device, false, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuCtxCreate_v4)(context == NULL ? NULL : &creation.made.handle,
                                          parameters, flags, device);
    return settle(&creation, result, context);
}

/* The primary context may outlive a release: others have retained it. */
static void end_primary(struct driver *driver, CUdevice device, uint32_t number) {
    uint32_t retains = context_retains(number);
    if (!is_primary_active(driver, device)) {
        launch_forget(driver, NULL, device);
        context_drop(number, retains);
        mempool_driver_query_all(driver);
    }
}

static uint32_t primary_number(struct driver *driver, CUdevice device) {
    struct current_context current;
    return current_context_of_device(driver, device, &current) ? context_number(&current) : 0;
}

static CUresult release_primary(struct driver *driver, cuDevicePrimaryCtxRelease_fn *release,
                                CUdevice device) {
    uint32_t number = primary_number(driver, device);
    launch_settle(driver, NULL, device);
    CUresult result = release(device);
    if (result == CUDA_SUCCESS) {
        end_primary(driver, device, number);
    }
    return result;
}

CUresult gate_cuDevicePrimaryCtxRelease(struct driver *driver, CUdevice device) {
    return release_primary(driver, REAL(driver, cuDevicePrimaryCtxRelease), device);
}

CUresult gate_cuDevicePrimaryCtxRelease_v2(struct driver *driver, CUdevice device) {
    return release_primary(driver, REAL(driver, cuDevicePrimaryCtxRelease_v2), device);
}

/* "Cleans up all resources associated with the device in the process" (cuda.h): pools' memory too,
 * which a last release may leave. */
static CUresult reset_primary(struct driver *driver, cuDevicePrimaryCtxReset_fn *reset,
                              CUdevice device) {
    CUresult result = release_primary(driver, reset, device);
    if (result == CUDA_SUCCESS) {
        mempool_driver_device_reset(driver, device);
    }
    return result;
}

CUresult gate_cuDevicePrimaryCtxReset(struct driver *driver, CUdevice device) {
    return reset_primary(driver, REAL(driver, cuDevicePrimaryCtxReset), device);
}

CUresult gate_cuDevicePrimaryCtxReset_v2(struct driver *driver, CUdevice device) {
    return reset_primary(driver, REAL(driver, cuDevicePrimaryCtxReset_v2), device);
}

static uint32_t number_of(struct driver *driver, CUcontext context) {
    struct current_context current = {.driver = driver, .handle = context};
    return context == NULL ? 0 : context_number(&current);
}

static CUresult destroy(struct driver *driver, cuCtxDestroy_fn *destroy_context,
                        CUcontext context) {
    uint32_t number = number_of(driver, context);
    launch_settle(driver, context, 0);
    CUresult result = destroy_context(context);
    if (result == CUDA_SUCCESS) {
        launch_forget(driver, context, 0);
        context_drop(number, context_retains(number));
        mempool_driver_query_all(driver);
    }
    return result;
}

CUresult gate_cuCtxDestroy(struct driver *driver, CUcontext context) {
    return destroy(driver, REAL(driver, cuCtxDestroy), context);
}

CUresult gate_cuCtxDestroy_v2(struct driver *driver, CUcontext context) {
    return destroy(driver, REAL(driver, cuCtxDestroy_v2), context);
}

/* As a context, a green one has another handle. */
static CUcontext context_of_green(struct driver *driver, CUgreenCtx green) {
    cuCtxFromGreenCtx_fn *get = REAL(driver, cuCtxFromGreenCtx);
    CUcontext context = NULL;
    return get != NULL && get(&context, green) == CUDA_SUCCESS ? context : NULL;
}

/* The primary context is held around the call: where it wasn't there, it is charged too. */
CUresult gate_cuGreenCtxCreate(struct driver *driver, CUgreenCtx *green,
                               CUdevResourceDesc resources, CUdevice device, unsigned int flags) {
    CUcontext primary, context;
    CUgreenCtx made = NULL;
    struct creation creation;
    CUresult result = gate_cuDevicePrimaryCtxRetain(driver, &primary, device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = begin(driver, device, false, &creation);
    if (result == CUDA_SUCCESS) {
        result =
            REAL(driver, cuGreenCtxCreate)(green == NULL ? NULL : &made, resources, device, flags);
        if (result == CUDA_SUCCESS) {
            creation.made.handle = context_of_green(driver, made);
            *green = made;
        }
        settle(&creation, result, &context);
    }
    gate_cuDevicePrimaryCtxRelease_v2(driver, device);
    return result;
}

CUresult gate_cuGreenCtxDestroy(struct driver *driver, CUgreenCtx green) {
    CUdevice device = 0;
    uint32_t number = green == NULL ? 0 : number_of(driver, context_of_green(driver, green));
    uint32_t primary = context_device(number, &device) ? primary_number(driver, device) : 0;
    CUresult result = REAL(driver, cuGreenCtxDestroy)(green);
    if (result == CUDA_SUCCESS && number != 0) {
        context_drop(number, context_retains(number));
        end_primary(driver, device, primary);
    }
    return result;
}
