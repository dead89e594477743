/* The hand of a test on the fake driver: two cards of 4 GiB, nothing behind them. */
#ifndef FAKE_H
#define FAKE_H

#include "cuda_abi.h"

enum { FAKE_CARDS = 2 };
#define FAKE_CARD_BYTES (UINT64_C(4) << 30)
/* Card n is GPU-00000000-0000-0000-0000-00000000000a + n. */
#define FAKE_FIRST_UUID_BYTE 0x0a

CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetCount(int *count);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetDevice(CUdevice *device);

unsigned long fake_allocations(void);    /* calls that reached the driver, also failed ones */
void fake_fail_next(CUresult result);    /* of the next allocation or context */
unsigned long long fake_in_use(void);    /* bytes allocated in this process */
void fake_set_errno_on_calls(int value); /* a driver may leave errno as it likes; 0: leaves it */
/* Makes the primary context current as cudart does, through no function that has a name. */
CUcontext fake_context_made_privately(int device);

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);

#endif
