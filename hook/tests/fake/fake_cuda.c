/*
 * A libcuda.so.1 for the hook's own tests: it hands out addresses, counts calls and fails on
 * demand. It has no limits, granules or other processes; tests/simgpu has them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "fake_driver.h"
#include "fake_launch.h"

enum { MAX_BLOCKS = 1 << 16, MAX_MADE = 256 };

static struct {
    pthread_mutex_t lock;
    struct {
        CUdeviceptr pointer;
        size_t bytes;
        CUcontext context;
    } blocks[MAX_BLOCKS];
    unsigned block_count;               /* places ever used: searches end there */
    struct CUctx_st contexts[MAX_MADE]; /* a new one takes the first free place */
    struct CUctx_st primary[FAKE_CARDS];
    unsigned retained[FAKE_CARDS];
    CUdeviceptr next;
    unsigned long allocations;
    unsigned long long in_use;
    CUresult failure;
    int errno_value;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .next = 0x100000};
static __thread CUcontext current;

unsigned long fake_allocations(void) { return fake.allocations; }

void fake_fail_next(CUresult result) { fake.failure = result; }

unsigned long long fake_in_use(void) { return fake.in_use; }
const unsigned long long *fake_in_use_word(void) { return &fake.in_use; }

void fake_set_errno_on_calls(int value) { fake.errno_value = value; }

void fake_lock(void) { pthread_mutex_lock(&fake.lock); }

void fake_unlock(void) { pthread_mutex_unlock(&fake.lock); }

CUcontext fake_current(void) { return current; }

void fake_use(unsigned long long bytes) { fake.in_use += bytes; }

void fake_unuse(unsigned long long bytes) { fake.in_use -= bytes; }

static CUresult begin_call(void) {
    if (fake.errno_value != 0) {
        errno = fake.errno_value;
    }
    CUresult failure = fake.failure;
    fake.failure = CUDA_SUCCESS;
    return failure;
}

CUresult fake_allocate_call(void) {
    fake.allocations++;
    return begin_call();
}

static CUresult allocate(CUdeviceptr *pointer, size_t bytes) {
    pthread_mutex_lock(&fake.lock);
    CUresult result = fake_allocate_call();
    if (result == CUDA_SUCCESS && current == NULL) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    }
    if (result == CUDA_SUCCESS && (bytes == 0 || pointer == NULL)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; result == CUDA_SUCCESS && i < MAX_BLOCKS; i++) {
        if (fake.blocks[i].bytes == 0) {
            fake.blocks[i].pointer = fake.next;
            fake.blocks[i].bytes = bytes;
            fake.blocks[i].context = current;
            *pointer = fake.next;
            fake.block_count += i == fake.block_count;
            fake.next += (bytes + 511) / 512 * 512;
            fake.in_use += bytes;
            break;
        }
    }
    pthread_mutex_unlock(&fake.lock);
    fake_take_turn();
    return result;
}

CUresult fake_release(CUdeviceptr pointer) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < fake.block_count; i++) {
        if (fake.blocks[i].bytes != 0 && fake.blocks[i].pointer == pointer) {
            fake.in_use -= fake.blocks[i].bytes;
            fake.blocks[i].bytes = 0;
            result = CUDA_SUCCESS;
        }
    }
    return result;
}

static CUresult release(CUdeviceptr pointer) {
    pthread_mutex_lock(&fake.lock);
    CUresult result = fake_pools_release(pointer) ? CUDA_SUCCESS : fake_release(pointer);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static void drop(CUcontext context) {
    for (unsigned i = 0; i < fake.block_count; i++) {
        if (fake.blocks[i].bytes != 0 && fake.blocks[i].context == context) {
            fake.in_use -= fake.blocks[i].bytes;
            fake.blocks[i].bytes = 0;
        }
    }
    fake_arrays_drop(context);
    context->alive = false;
}

CUresult cuInit(unsigned int flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuDriverGetVersion(int *version) {
    *version = 12020;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    *count = FAKE_CARDS;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    if (device < 0 || device >= FAKE_CARDS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *uuid = (CUuuid){.bytes = {0}};
    uuid->bytes[15] = (uint8_t)(FAKE_FIRST_UUID_BYTE + device);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    current = context;
    return CUDA_SUCCESS;
}

/* A stack of two is enough: the current context, and the pushed one. */
static __thread CUcontext below;
cuCtxPushCurrent_v2_fn cuCtxPushCurrent_v2;
CUresult cuCtxPushCurrent_v2(CUcontext context) {
    below = current;
    return cuCtxSetCurrent(context);
}

cuCtxPopCurrent_v2_fn cuCtxPopCurrent_v2;
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    *context = current;
    return cuCtxSetCurrent(below);
}

CUresult cuCtxGetDevice(CUdevice *device) {
    if (current == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *device = current->device;
    return CUDA_SUCCESS;
}

cuDevicePrimaryCtxGetState_fn cuDevicePrimaryCtxGetState;
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    *flags = 0;
    *active = fake.retained[device] != 0;
    fake_take_turn();
    return CUDA_SUCCESS;
}

cuDevicePrimaryCtxRetain_fn cuDevicePrimaryCtxRetain;
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    fake_take_turn();
    CUresult result = begin_call();
    if (result == CUDA_SUCCESS && (device < 0 || device >= FAKE_CARDS)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        fake.retained[device]++;
        fake.primary[device] = (struct CUctx_st){.device = device, .alive = true};
        *context = &fake.primary[device];
    }
    fake_take_turn();
    return result;
}

CUcontext fake_context_made_privately(int device) {
    fake.retained[device]++;
    fake.primary[device] = (struct CUctx_st){.device = device, .alive = true};
    return current = &fake.primary[device];
}

cuDevicePrimaryCtxRelease_v2_fn cuDevicePrimaryCtxRelease_v2;
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    if (fake.retained[device] > 0 && --fake.retained[device] == 0) {
        drop(&fake.primary[device]);
    }
    return CUDA_SUCCESS;
}

cuDevicePrimaryCtxReset_v2_fn cuDevicePrimaryCtxReset_v2;
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    fake.retained[device] = 0;
    drop(&fake.primary[device]);
    fake_pools_reset(device);
    return CUDA_SUCCESS;
}

cuCtxCreate_v2_fn cuCtxCreate_v2;
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    (void)flags;
    CUresult result = begin_call();
    if (result == CUDA_SUCCESS) {
        current = fake.contexts;
        while (current->alive) {
            current++;
        }
        *current = (struct CUctx_st){.device = device, .alive = true};
        *context = current;
    }
    fake_take_turn();
    return result;
}

cuCtxDestroy_v2_fn cuCtxDestroy_v2;
CUresult cuCtxDestroy_v2(CUcontext context) {
    if (context == NULL || !context->alive) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    drop(context);
    current = current == context ? NULL : current;
    fake_take_turn();
    return CUDA_SUCCESS;
}

cuMemAlloc_fn cuMemAlloc;
CUresult cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned int bytes) {
    CUdeviceptr wide = 0;
    CUresult result = allocate(&wide, bytes);
    *pointer = result == CUDA_SUCCESS ? (CUdeviceptr_v1)wide : *pointer;
    fake_take_turn();
    return result;
}

cuMemAlloc_v2_fn cuMemAlloc_v2;
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) { return allocate(pointer, bytes); }

cuMemAllocManaged_fn cuMemAllocManaged;
CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags) {
    return flags == 0 ? CUDA_ERROR_INVALID_VALUE : allocate(pointer, bytes);
}

/* Rows of 1 KiB: twice the padding that the hook expects. */
cuMemAllocPitch_v2_fn cuMemAllocPitch_v2;
CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned int element) {
    (void)element;
    *pitch = (width + 1023) / 1024 * 1024;
    return allocate(pointer, *pitch * height);
}

cuMemFree_fn cuMemFree;
CUresult cuMemFree(CUdeviceptr_v1 pointer) { return release(pointer); }

cuMemFree_v2_fn cuMemFree_v2;
CUresult cuMemFree_v2(CUdeviceptr pointer) { return release(pointer); }

cuMemGetInfo_v2_fn cuMemGetInfo_v2;
CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    if (current == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (available != NULL) {
        *available = FAKE_CARD_BYTES - fake.in_use;
    }
    if (total != NULL) {
        *total = FAKE_CARD_BYTES;
    }
    return CUDA_SUCCESS;
}

cuDeviceTotalMem_v2_fn cuDeviceTotalMem_v2;
CUresult cuDeviceTotalMem_v2(size_t *total, CUdevice device) {
    (void)device;
    *total = FAKE_CARD_BYTES;
    return CUDA_SUCCESS;
}
