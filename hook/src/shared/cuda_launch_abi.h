/* Types of the driver's launches, laid out as in cuda.h 11.8 to 13.0. */
#ifndef HOOK_CUDA_LAUNCH_ABI_H
#define HOOK_CUDA_LAUNCH_ABI_H

#include "shared/cuda_memory_abi.h"

typedef struct CUfunction_st *CUfunction;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUlaunchAttribute_st CUlaunchAttribute;

typedef struct {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

typedef struct {
    CUfunction function;
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
} CUDA_LAUNCH_PARAMS;

typedef void (*CUgraphRecaptureCallback)(void); /* it has arguments; the hook doesn't call it */
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;

#endif
