/* Green contexts and limits of the fake driver. */
#include "fake_driver.h"

enum { HEAP_STEP = 1 << 20, STACK_STEP = 16 };
static size_t heap_bytes = 8u << 20, stack_bytes = 1u << 10;

cuCtxSetLimit_fn cuCtxSetLimit;
CUresult cuCtxSetLimit(int limit, size_t value) {
    fake_lock();
    CUresult result = fake_allocate_call();
    fake_unlock();
    if (result == CUDA_SUCCESS && fake_current() == NULL) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    }
    if (result == CUDA_SUCCESS && limit == CU_LIMIT_MALLOC_HEAP_SIZE) {
        heap_bytes = (value + HEAP_STEP - 1) / HEAP_STEP * HEAP_STEP;
    }
    if (result == CUDA_SUCCESS && limit == CU_LIMIT_STACK_SIZE) {
        stack_bytes = (value + STACK_STEP - 1) / STACK_STEP * STACK_STEP;
    }
    return result;
}

cuCtxGetLimit_fn cuCtxGetLimit;
CUresult cuCtxGetLimit(size_t *value, int limit) {
    *value = limit == CU_LIMIT_MALLOC_HEAP_SIZE ? heap_bytes
             : limit == CU_LIMIT_STACK_SIZE     ? stack_bytes
                                                : 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < FAKE_CARDS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A card of 8 multiprocessors with room for 1024 threads each. */
cuDeviceGetAttribute_fn cuDeviceGetAttribute;
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT             ? 8
             : attribute == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR ? 1024
                                                                               : 0;
    return CUDA_SUCCESS;
}

/* As the real call it retains the primary context; the green context has a handle of its own. */
cuGreenCtxCreate_fn cuGreenCtxCreate;
CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device,
                          unsigned int flags) {
    CUcontext current = fake_current(), primary, made;
    (void)resources;
    if (flags != 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = cuCtxCreate_v2(&made, 0, device);
    if (result == CUDA_SUCCESS) {
        cuCtxSetCurrent(current); /* the context isn't made current */
        result = cuDevicePrimaryCtxRetain(&primary, device);
        *green = (CUgreenCtx)(void *)made;
    }
    return result;
}

cuCtxFromGreenCtx_fn cuCtxFromGreenCtx;
CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green) {
    *context = (CUcontext)(void *)green;
    return CUDA_SUCCESS;
}

cuGreenCtxDestroy_fn cuGreenCtxDestroy;
CUresult cuGreenCtxDestroy(CUgreenCtx green) {
    CUcontext context = (CUcontext)(void *)green;
    CUdevice device = context->device;
    CUresult result = cuCtxDestroy_v2(context);
    return result == CUDA_SUCCESS ? cuDevicePrimaryCtxRelease_v2(device) : result;
}
