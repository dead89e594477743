/* Answers of a kernel function about itself. */
#include "api.h"

#define FUNCTION_ATTRIBUTES 16 /* CU_FUNC_ATTRIBUTE_MAX in CUDA 12 */

static CUresult check(CUfunction function) {
    CUresult rc = driver_ready();
    return rc == CUDA_SUCCESS && !function ? CUDA_ERROR_INVALID_HANDLE : rc;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    CUresult rc = check(function);
    if (rc == CUDA_SUCCESS && (!value || attribute < 0 || attribute >= FUNCTION_ATTRIBUTES))
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *value = function->attributes[attribute];
    return rc;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    CUresult rc = check(function);
    if (rc == CUDA_SUCCESS && (attribute < 8 || attribute >= FUNCTION_ATTRIBUTES))
        return CUDA_ERROR_INVALID_VALUE; /* the first eight are facts, not settings */
    if (rc == CUDA_SUCCESS)
        function->attributes[attribute] = value;
    return rc;
}

CUresult cuFuncSetCacheConfig(CUfunction function, int config) {
    CUresult rc = check(function);
    return rc == CUDA_SUCCESS && (config < 0 || config > 3) ? CUDA_ERROR_INVALID_VALUE : rc;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    CUresult rc = check(function);
    if (rc == CUDA_SUCCESS && !module)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *module = function->module;
    return rc;
}

/* By threads alone: 2048 a multiprocessor, at most 32 blocks. */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                     int block_size, size_t shared_bytes) {
    (void)shared_bytes;
    CUresult rc = check(function);
    if (rc == CUDA_SUCCESS && (!blocks || block_size < 1 || block_size > 1024))
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *blocks = 2048 / block_size < 32 ? 2048 / block_size : 32;
    return rc;
}
