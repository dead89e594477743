/* Shared by the parts of the fake driver. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <stdbool.h>

#include "fake.h"
#include "loader/drivers.h"

enum { CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_INVALID_CONTEXT = 201 };

struct CUctx_st {
    CUdevice device;
    bool alive;
};

/* One lock for the whole driver, held by callers of all functions below. */
void fake_lock(void);
void fake_unlock(void);
CUcontext fake_current(void);
/* An allocation begins: it is counted, errno is set, an ordered failure is due. */
CUresult fake_allocate_call(void);
/* The card's memory, which the driver never checks. */
void fake_use(unsigned long long bytes);
void fake_unuse(unsigned long long bytes);

CUresult fake_release(CUdeviceptr pointer);   /* memory that no pool gave out */
bool fake_pools_release(CUdeviceptr pointer); /* false: no pool gave it out */

cuCtxCreate_v2_fn cuCtxCreate_v2;
cuCtxDestroy_v2_fn cuCtxDestroy_v2;
cuDevicePrimaryCtxRetain_fn cuDevicePrimaryCtxRetain;
cuDevicePrimaryCtxRelease_v2_fn cuDevicePrimaryCtxRelease_v2;

void fake_graphs_synchronized(void);
/* The memory of executable graphs that cuGraphInstantiate made: a launch takes it, and no time. */
bool fake_graph_is_made(CUgraphExec exec);
CUresult fake_graph_take(CUgraphExec exec);

/* A context ends, and a device is reset. */
void fake_arrays_drop(CUcontext context);
void fake_pools_reset(CUdevice device);

#endif
