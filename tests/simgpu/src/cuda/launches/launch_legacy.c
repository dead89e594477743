/* Launches as before CUDA 4.0: block and parameters are set on the function. */
#include <string.h>

#include "api.h"
#include "launch.h"

static CUresult check(CUfunction function) {
    struct context *context;
    CUresult rc = context_current(&context);
    return rc == CUDA_SUCCESS && !function ? CUDA_ERROR_INVALID_HANDLE : rc;
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
    CUresult rc = check(function);
    if (rc == CUDA_SUCCESS && (x < 1 || y < 1 || z < 1 || (long long)x * y * z > 1024))
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        memcpy(function->block, (unsigned[3]){(unsigned)x, (unsigned)y, (unsigned)z},
               sizeof function->block);
    return rc;
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
    CUresult rc = check(function);
    if (rc == CUDA_SUCCESS)
        function->shared_bytes = bytes;
    return rc;
}

CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
    CUresult rc = check(function);
    return rc == CUDA_SUCCESS && bytes > sizeof function->parameters ? CUDA_ERROR_INVALID_VALUE
                                                                     : rc;
}

CUresult cuParamSetv(CUfunction function, int offset, void *from, unsigned bytes) {
    CUresult rc = check(function);
    if (rc == CUDA_SUCCESS &&
        (!from || offset < 0 || (size_t)offset + bytes > sizeof function->parameters))
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        memcpy(function->parameters + offset, from, bytes);
    return rc;
}

CUresult cuParamSeti(CUfunction function, int offset, unsigned value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

CUresult cuParamSetf(CUfunction function, int offset, float value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

/* A function without a block shape is refused at its launch. */
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
    CUresult rc = check(function);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (width < 1 || height < 1)
        return CUDA_ERROR_INVALID_VALUE;
    void *params[] = {function->parameters};
    return cuLaunchKernel(function, (unsigned)width, (unsigned)height, 1, function->block[0],
                          function->block[1], function->block[2], function->shared_bytes, stream,
                          params, NULL);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height) {
    return cuLaunchGridAsync(function, width, height, NULL);
}

CUresult cuLaunch(CUfunction function) { return cuLaunchGrid(function, 1, 1); }
