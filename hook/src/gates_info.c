/*
 * What a tenant sees of its cards: its share, and what is left of it. Closed without limits: the
 * whole card would be a lie. Outputs that the program left out stay the driver's affair.
 */
#include "gates.h"

static uint64_t lesser(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* The share can't be more than there is, nor its rest more than the card has left. */
static CUresult current_memory(struct driver *driver, uint64_t *available, uint64_t *total) {
    struct seat seat;
    CUresult result = seat_current(driver, &seat);
    if (result != CUDA_SUCCESS || seat.handle == NULL) {
        return result;
    }
    struct view view;
    result = account_view(&seat.uuid, &view);
    if (result == CUDA_SUCCESS) {
        *total = lesser(*total, view.share_bytes);
        *available = lesser(*available, view.share_bytes - view.used_bytes);
    }
    return result;
}

CUresult gate_cuMemGetInfo(struct driver *driver, unsigned int *available, unsigned int *total) {
    CUresult result = REAL(driver, cuMemGetInfo)(available, total);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    uint64_t shown_available = available == NULL ? 0 : *available;
    uint64_t shown_total = total == NULL ? 0 : *total;
    result = current_memory(driver, &shown_available, &shown_total);
    if (result == CUDA_SUCCESS && available != NULL) {
        *available = (unsigned int)shown_available;
    }
    if (result == CUDA_SUCCESS && total != NULL) {
        *total = (unsigned int)shown_total;
    }
    return result;
}

CUresult gate_cuMemGetInfo_v2(struct driver *driver, size_t *available, size_t *total) {
    CUresult result = REAL(driver, cuMemGetInfo_v2)(available, total);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    uint64_t shown_available = available == NULL ? 0 : *available;
    uint64_t shown_total = total == NULL ? 0 : *total;
    result = current_memory(driver, &shown_available, &shown_total);
    if (result == CUDA_SUCCESS && available != NULL) {
        *available = shown_available;
    }
    if (result == CUDA_SUCCESS && total != NULL) {
        *total = shown_total;
    }
    return result;
}

static CUresult share_of(struct driver *driver, CUdevice device, uint64_t *share) {
    struct seat seat;
    struct view view;
    if (!seat_device(driver, device, &seat)) {
        return CUDA_ERROR_NOT_PERMITTED; /* a card without a name has no limits */
    }
    CUresult result = account_view(&seat.uuid, &view);
    if (result == CUDA_SUCCESS) {
        *share = view.share_bytes;
    }
    return result;
}

CUresult gate_cuDeviceTotalMem(struct driver *driver, unsigned int *total, CUdevice device) {
    CUresult result = REAL(driver, cuDeviceTotalMem)(total, device);
    uint64_t share = UINT64_MAX;
    if (result == CUDA_SUCCESS) {
        result = share_of(driver, device, &share);
        *total = (unsigned int)lesser(*total, share);
    }
    return result;
}

CUresult gate_cuDeviceTotalMem_v2(struct driver *driver, size_t *total, CUdevice device) {
    CUresult result = REAL(driver, cuDeviceTotalMem_v2)(total, device);
    uint64_t share = UINT64_MAX;
    if (result == CUDA_SUCCESS) {
        result = share_of(driver, device, &share);
        *total = lesser(*total, share);
    }
    return result;
}
