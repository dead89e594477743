#include "hooks/hooks_memory_info.h"

#include "hooks/current_context.h"

static uint64_t lesser(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* The share is at most the card's memory, and its rest at most the card's free memory. */
static CUresult current_memory(struct driver *driver, uint64_t *available, uint64_t *total) {
    struct current_context current;
    CUresult result = current_context_get(driver, &current);
    if (result != CUDA_SUCCESS || current.handle == NULL) {
        return result;
    }
    struct view view;
    result = account_view(&current.uuid, &view);
    if (result == CUDA_SUCCESS) {
        *total = lesser(*total, view.share_bytes);
        *available = lesser(*available, view.share_bytes - view.used_bytes);
    }
    return result;
}

/* A refused call shows no figure of the card. */
CUresult gate_cuMemGetInfo(struct driver *driver, unsigned int *available, unsigned int *total) {
    unsigned int card_available = 0, card_total = 0;
    CUresult result = REAL(driver, cuMemGetInfo)(available == NULL ? NULL : &card_available,
                                                 total == NULL ? NULL : &card_total);
    uint64_t shown_available = card_available, shown_total = card_total;
    if (result == CUDA_SUCCESS) {
        result = current_memory(driver, &shown_available, &shown_total);
    }
    if (result == CUDA_SUCCESS && available != NULL) {
        *available = (unsigned int)shown_available;
    }
    if (result == CUDA_SUCCESS && total != NULL) {
        *total = (unsigned int)shown_total;
    }
    return result;
}

CUresult gate_cuMemGetInfo_v2(struct driver *driver, size_t *available, size_t *total) {
    size_t card_available = 0, card_total = 0;
    CUresult result = REAL(driver, cuMemGetInfo_v2)(available == NULL ? NULL : &card_available,
                                                    total == NULL ? NULL : &card_total);
    uint64_t shown_available = card_available, shown_total = card_total;
    if (result == CUDA_SUCCESS) {
        result = current_memory(driver, &shown_available, &shown_total);
    }
    if (result == CUDA_SUCCESS && available != NULL) {
        *available = shown_available;
    }
    if (result == CUDA_SUCCESS && total != NULL) {
        *total = shown_total;
    }
    return result;
}

static CUresult share_of(struct driver *driver, CUdevice device, uint64_t *share) {
    struct current_context current;
    struct view view;
    if (!current_context_of_device(driver, device, &current)) {
        return CUDA_ERROR_NOT_PERMITTED; /* a card without a UUID has no limits */
    }
    CUresult result = account_view(&current.uuid, &view);
    if (result == CUDA_SUCCESS) {
        *share = view.share_bytes;
    }
    return result;
}

CUresult gate_cuDeviceTotalMem(struct driver *driver, unsigned int *total, CUdevice device) {
    unsigned int whole = 0;
    uint64_t share = UINT64_MAX;
    CUresult result = REAL(driver, cuDeviceTotalMem)(total == NULL ? NULL : &whole, device);
    if (result == CUDA_SUCCESS) {
        result = share_of(driver, device, &share);
    }
    if (result == CUDA_SUCCESS) {
        *total = (unsigned int)lesser(whole, share);
    }
    return result;
}

CUresult gate_cuDeviceTotalMem_v2(struct driver *driver, size_t *total, CUdevice device) {
    size_t whole = 0;
    uint64_t share = UINT64_MAX;
    CUresult result = REAL(driver, cuDeviceTotalMem_v2)(total == NULL ? NULL : &whole, device);
    if (result == CUDA_SUCCESS) {
        result = share_of(driver, device, &share);
    }
    if (result == CUDA_SUCCESS) {
        *total = lesser(whole, share);
    }
    return result;
}
