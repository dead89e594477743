/* The driver API calls that the workload makes, declared by ourselves: no CUDA toolkit is needed.
 * Names and types are those of cuda.h; what cuda.h renames with a macro (cuMemAlloc is
 * cuMemAlloc_v2) has the real name here. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx *CUcontext;
typedef struct CUmod *CUmodule;
typedef struct CUfunc *CUfunction;
typedef struct CUstr *CUstream;
typedef struct {
    unsigned char bytes[16];
} CUuuid;

#define CUDA_SUCCESS 0

/* X(return type's arguments): every entry point that driver_load looks up. */
#define DRIVER_CALLS(X)                                                                            \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuGetErrorName, (CUresult result, const char **name))                                        \
    X(cuDeviceGetCount, (int *count))                                                              \
    X(cuDeviceGet, (CUdevice * device, int ordinal))                                               \
    X(cuDeviceGetName, (char *name, int length, CUdevice device))                                  \
    X(cuDeviceGetUuid, (CUuuid * uuid, CUdevice device))                                           \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                            \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                             \
    X(cuCtxSetCurrent, (CUcontext context))                                                        \
    X(cuCtxSynchronize, (void))                                                                    \
    X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                \
    X(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                        \
    X(cuMemFree_v2, (CUdeviceptr address))                                                         \
    X(cuModuleLoadData, (CUmodule * module, const void *image))                                    \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))             \
    X(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,     \
                       unsigned block_x, unsigned block_y, unsigned block_z,                       \
                       unsigned shared_bytes, CUstream stream, void **parameters, void **extra))

struct driver {
#define DECLARE(name, arguments) CUresult(*name) arguments;
    DRIVER_CALLS(DECLARE)
#undef DECLARE
};

#endif
