/* Device memory: allocate, free, ask. */
#include <stdint.h>

#include "api.h"

static CUresult allocate(uint64_t *out, uint64_t bytes, enum memory_kind kind, bool low) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    return heap_allocate(context, bytes, kind, low, out);
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    uint64_t address = 0;
    CUresult rc = out ? allocate(&address, bytes, MEMORY_DEVICE, false) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *out = address;
    return rc;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *out, unsigned bytes) {
    uint64_t address = 0;
    CUresult rc = out ? allocate(&address, bytes, MEMORY_DEVICE, true) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *out = (CUdeviceptr_v1)address;
    return rc;
}

/* Rows are padded to 512 bytes, for a card's texture pitch. */
static CUresult allocate_pitch(uint64_t *out, uint64_t *pitch, uint64_t width, uint64_t height,
                               unsigned element, bool low) {
    uint64_t bytes;
    if ((element != 4 && element != 8 && element != 16) || width > UINT64_MAX - UNIT_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = round_up(width, UNIT_BYTES);
    if (__builtin_mul_overflow(*pitch, height, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(out, bytes, MEMORY_DEVICE, low);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned element) {
    uint64_t address = 0, row = 0;
    if (!out || !pitch)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = allocate_pitch(&address, &row, width, height, element, false);
    if (rc == CUDA_SUCCESS) {
        *out = address;
        *pitch = row;
    }
    return rc;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *out, unsigned *pitch, unsigned width, unsigned height,
                         unsigned element) {
    uint64_t address = 0, row = 0;
    if (!out || !pitch)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = allocate_pitch(&address, &row, width, height, element, true);
    if (rc == CUDA_SUCCESS) {
        *out = (CUdeviceptr_v1)address;
        *pitch = (unsigned)row;
    }
    return rc;
}

/* Managed memory occupies the card from the start; the real driver moves pages there at a touch. */
CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
    uint64_t address = 0;
    if (!out || (flags != 1 && flags != 2))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = allocate(&address, bytes, MEMORY_MANAGED, false);
    if (rc == CUDA_SUCCESS)
        *out = address;
    return rc;
}

CUresult memory_release(struct memory memory, struct stream *stream) {
    switch (memory.kind) {
    case MEMORY_DEVICE:
    case MEMORY_MANAGED:
        heap_free(memory);
        return CUDA_SUCCESS;
    case MEMORY_POOL:
        block_free(memory, stream);
        return CUDA_SUCCESS;
    case MEMORY_GRAPH:
        return graph_memory_give(memory.base);
    case MEMORY_EXTERNAL:
    case MEMORY_SHARED:
        if (memory.opens)
            return CUDA_ERROR_INVALID_VALUE;
        backing_hide(memory);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Waits for the context's work first, as the real driver does. A free of NULL succeeds. */
CUresult cuMemFree_v2(CUdeviceptr address) {
    struct context *context = NULL;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS || !address)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct memory *memory = memory_find(address);
    if (memory)
        context = memory->context;
    pthread_mutex_unlock(&driver.lock);
    if (!context && context_current(&context) != CUDA_SUCCESS)
        context = NULL; /* memory of the process, freed where no context has work */
    if (context && memory)
        context_wait(context);
    pthread_mutex_lock(&driver.lock);
    memory = memory_find(address);
    rc = memory && memory->base == address ? memory_release(*memory, NULL)
                                           : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMemFree(CUdeviceptr_v1 address) { return cuMemFree_v2(address); }

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    uint64_t total = driver.state->cards[context->card].memory_bytes;
    sim_lock(driver.state);
    sim_clients_reap(driver.state);
    uint64_t used = sim_card_used_bytes(driver.state, context->card);
    sim_unlock(driver.state);
    if (free_bytes)
        *free_bytes = used < total ? total - used : 0;
    if (total_bytes)
        *total_bytes = total;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned *free_bytes, unsigned *total_bytes) {
    size_t wide_free = 0, wide_total = 0;
    CUresult rc = cuMemGetInfo_v2(&wide_free, &wide_total);
    if (rc == CUDA_SUCCESS && free_bytes)
        *free_bytes = wide_free > UINT32_MAX ? UINT32_MAX : (unsigned)wide_free;
    if (rc == CUDA_SUCCESS && total_bytes)
        *total_bytes = wide_total > UINT32_MAX ? UINT32_MAX : (unsigned)wide_total;
    return rc;
}

static CUresult find_range(CUdeviceptr address, uint64_t *base, uint64_t *bytes) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct memory *memory = memory_find(address);
    if (memory) {
        *base = memory->base;
        *bytes = memory->bytes;
    }
    pthread_mutex_unlock(&driver.lock);
    return memory ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    uint64_t found_base = 0, found_bytes = 0;
    CUresult rc = find_range(address, &found_base, &found_bytes);
    if (rc == CUDA_SUCCESS && base)
        *base = found_base;
    if (rc == CUDA_SUCCESS && bytes)
        *bytes = found_bytes;
    return rc;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned *bytes, CUdeviceptr_v1 address) {
    uint64_t found_base = 0, found_bytes = 0;
    CUresult rc = find_range(address, &found_base, &found_bytes);
    if (rc == CUDA_SUCCESS && base)
        *base = (CUdeviceptr_v1)found_base;
    if (rc == CUDA_SUCCESS && bytes)
        *bytes = (unsigned)found_bytes;
    return rc;
}
