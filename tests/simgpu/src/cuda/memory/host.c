/* Page-locked host memory. It takes nothing of the card. */
#include <string.h>
#include <sys/mman.h>

#include "api.h"

static CUresult allocate_host(void **out, size_t bytes, unsigned flags) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || bytes == 0 || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct memory memory = {.base = (uintptr_t)at,
                            .bytes = bytes,
                            .kind = MEMORY_HOST,
                            .flags = flags,
                            .device = context->device};
    pthread_mutex_lock(&driver.lock);
    bool added = memory_add(&memory);
    pthread_mutex_unlock(&driver.lock);
    if (!added) {
        munmap(at, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = at;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **out, size_t bytes) { return allocate_host(out, bytes, 0); }

CUresult cuMemAllocHost(void **out, unsigned bytes) { return allocate_host(out, bytes, 0); }

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    return allocate_host(out, bytes, flags);
}

static CUresult take_out(void *at, enum memory_kind kind, CUresult missing, struct memory *found) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct memory *memory = memory_find((uintptr_t)at);
    if (memory && memory->kind == kind && memory->base == (uintptr_t)at)
        *found = *memory;
    else
        rc = missing;
    if (rc == CUDA_SUCCESS)
        memory_remove((uintptr_t)at);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMemFreeHost(void *at) {
    struct memory memory = {0};
    CUresult rc = take_out(at, MEMORY_HOST, CUDA_ERROR_INVALID_VALUE, &memory);
    if (rc == CUDA_SUCCESS)
        munmap(at, memory.bytes);
    return rc;
}

CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!at || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct memory memory = {.base = (uintptr_t)at,
                            .bytes = bytes,
                            .kind = MEMORY_REGISTERED,
                            .flags = flags,
                            .device = context->device};
    pthread_mutex_lock(&driver.lock);
    if (memory_find((uintptr_t)at))
        rc = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!memory_add(&memory))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMemHostRegister(void *at, size_t bytes, unsigned flags) {
    return cuMemHostRegister_v2(at, bytes, flags);
}

CUresult cuMemHostUnregister(void *at) {
    struct memory memory = {0};
    return take_out(at, MEMORY_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, &memory);
}

static bool look_up(uint64_t address, struct memory *found) {
    pthread_mutex_lock(&driver.lock);
    const struct memory *memory = memory_find(address);
    if (memory)
        *found = *memory;
    pthread_mutex_unlock(&driver.lock);
    return memory != NULL;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *at, unsigned flags) {
    struct context *context;
    struct memory memory;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || flags != 0 || !look_up((uintptr_t)at, &memory) || memory.kind < MEMORY_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (uintptr_t)at; /* unified addressing */
    return CUDA_SUCCESS;
}

/* Host memory lies above 4 GiB, where the first interface's addresses do not reach. */
CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *out, void *at, unsigned flags) {
    CUdeviceptr wide;
    CUresult rc = out ? cuMemHostGetDevicePointer_v2(&wide, at, flags) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && wide > UINT32_MAX)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (rc == CUDA_SUCCESS)
        *out = (CUdeviceptr_v1)wide;
    return rc;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *at) {
    struct context *context;
    struct memory memory;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags || !look_up((uintptr_t)at, &memory) || memory.kind != MEMORY_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = memory.flags;
    return CUDA_SUCCESS;
}
