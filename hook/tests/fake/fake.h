/* A test's control of the fake driver: two cards of 4 GiB, with nothing behind them. */
#ifndef FAKE_H
#define FAKE_H

#include "shared/cuda_memory_abi.h"

enum { FAKE_CARDS = 2 };
#define FAKE_CARD_BYTES (UINT64_C(4) << 30)
/* Card n is GPU-00000000-0000-0000-0000-00000000000a + n. */
#define FAKE_FIRST_UUID_BYTE 0x0a

CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetDevice(CUdevice *device);

unsigned long fake_allocations(void); /* calls that reached the driver, also failed ones */
void fake_fail_next(CUresult result); /* of the next allocation or context */
unsigned long long fake_in_use(void); /* bytes allocated in this process */
const unsigned long long *fake_in_use_word(void); /* where it lies, for another process */
void fake_set_errno_on_calls(int value); /* a driver may set errno to any value; 0: leaves it */
/* Makes the primary context current as cudart does, through no function that has a name. */
CUcontext fake_context_made_privately(int device);

/* Pools reserve whole chunks (2 MiB unless told), and give back what exceeds their threshold when
 * something synchronises. */
void fake_set_pool_chunk(unsigned long long bytes);
/* cuArrayGetMemoryRequirements answers so many bytes for each array; 0: it refuses. */
void fake_set_array_bytes(unsigned long long bytes);
size_t fake_array_width(void); /* as the driver read it last */
CUstream fake_stream_of(CUcontext context);
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value);
CUresult cuGraphCreate(CUgraph *graph, unsigned int flags);
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *parameters);
CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                               size_t count, CUdeviceptr pointer);
CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                  size_t count, CUgraph child);

#endif
