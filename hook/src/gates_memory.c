/*
 * Device memory: charged before the driver is called, returned when it fails. Without a current
 * context the driver is asked as if we weren't there: it refuses. All of these are closed.
 */
#include "gates.h"

/* Allocation functions differ in their arguments: each gate charges, calls, and settles. */
static CUresult begin(struct driver *driver, size_t bytes, struct charge *charge) {
    struct seat seat;
    *charge = (struct charge){.context = 0};
    CUresult result = seat_current(driver, &seat);
    if (result != CUDA_SUCCESS || seat.handle == NULL) {
        return result;
    }
    return account_charge(&seat, bytes, charge);
}

static CUresult settle(const struct charge *charge, CUresult result, CUdeviceptr pointer) {
    if (result == CUDA_SUCCESS) {
        account_keep(charge, pointer);
    } else {
        account_cancel(charge);
    }
    return result;
}

#define ALLOCATE(name, pointer, bytes, ...)                                                        \
    struct charge charge;                                                                          \
    CUresult result = begin(driver, bytes, &charge);                                               \
    if (result != CUDA_SUCCESS) {                                                                  \
        return result;                                                                             \
    }                                                                                              \
    result = REAL(driver, name)(__VA_ARGS__);                                                      \
    return settle(&charge, result, result == CUDA_SUCCESS ? *(pointer) : 0);

CUresult gate_cuMemAlloc(struct driver *driver, CUdeviceptr_v1 *pointer,
                         unsigned int bytes){ALLOCATE(cuMemAlloc, pointer, bytes, pointer, bytes)}

CUresult gate_cuMemAlloc_v2(struct driver *driver, CUdeviceptr *pointer,
                            size_t bytes){ALLOCATE(cuMemAlloc_v2, pointer, bytes, pointer, bytes)}

CUresult gate_cuMemAllocManaged(struct driver *driver, CUdeviceptr *pointer, size_t bytes,
                                unsigned int flags){
    ALLOCATE(cuMemAllocManaged, pointer, bytes, pointer, bytes, flags)}

CUresult gate_cuMemAllocAsync(struct driver *driver, CUdeviceptr *pointer, size_t bytes,
                              CUstream stream){
    ALLOCATE(cuMemAllocAsync, pointer, bytes, pointer, bytes, stream)}

CUresult gate_cuMemAllocAsync_ptsz(struct driver *driver, CUdeviceptr *pointer, size_t bytes,
                                   CUstream stream){
    ALLOCATE(cuMemAllocAsync_ptsz, pointer, bytes, pointer, bytes, stream)}

CUresult gate_cuMemAllocFromPoolAsync(struct driver *driver, CUdeviceptr *pointer, size_t bytes,
                                      CUmemoryPool pool, CUstream stream){
    ALLOCATE(cuMemAllocFromPoolAsync, pointer, bytes, pointer, bytes, pool, stream)}

CUresult gate_cuMemAllocFromPoolAsync_ptsz(struct driver *driver, CUdeviceptr *pointer,
                                           size_t bytes, CUmemoryPool pool, CUstream stream) {
    ALLOCATE(cuMemAllocFromPoolAsync_ptsz, pointer, bytes, pointer, bytes, pool, stream)
}

/* Rows of real cards start at multiples of 512 bytes (the driver's texture alignment); where a
 * driver pads more, the difference is asked for afterwards, and may be refused. */
enum { PITCH_BYTES = 512 };

static size_t padded_area(size_t width, size_t height) {
    size_t pitch, area;
    if (__builtin_add_overflow(width, PITCH_BYTES - 1, &pitch) ||
        __builtin_mul_overflow(pitch / PITCH_BYTES * PITCH_BYTES, height, &area)) {
        return SIZE_MAX; /* more than any share */
    }
    return area;
}

/* Charges the area that the driver took, where that is more than was asked for. */
static CUresult settle_pitch(struct driver *driver, struct charge *charge, size_t area,
                             CUdeviceptr pointer) {
    if (charge->context != 0 && area > charge->bytes) {
        account_cancel(charge);
        CUresult result = begin(driver, area, charge);
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    account_keep(charge, pointer);
    return CUDA_SUCCESS;
}

CUresult gate_cuMemAllocPitch(struct driver *driver, CUdeviceptr_v1 *pointer, unsigned int *pitch,
                              unsigned int width, unsigned int height, unsigned int element) {
    struct charge charge;
    CUresult result = begin(driver, padded_area(width, height), &charge);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuMemAllocPitch)(pointer, pitch, width, height, element);
    if (result != CUDA_SUCCESS) {
        account_cancel(&charge);
        return result;
    }
    result = settle_pitch(driver, &charge, (size_t)*pitch * height, *pointer);
    cuMemFree_fn *give_back = REAL(driver, cuMemFree);
    if (result != CUDA_SUCCESS && give_back != NULL) {
        give_back(*pointer);
    }
    return result;
}

CUresult gate_cuMemAllocPitch_v2(struct driver *driver, CUdeviceptr *pointer, size_t *pitch,
                                 size_t width, size_t height, unsigned int element) {
    struct charge charge;
    CUresult result = begin(driver, padded_area(width, height), &charge);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
    if (result != CUDA_SUCCESS) {
        account_cancel(&charge);
        return result;
    }
    result = settle_pitch(driver, &charge, *pitch * height, *pointer);
    cuMemFree_v2_fn *give_back = REAL(driver, cuMemFree_v2);
    if (result != CUDA_SUCCESS && give_back != NULL) {
        give_back(*pointer);
    }
    return result;
}

#define RELEASE(name, pointer, ...)                                                                \
    struct held held = account_take(pointer);                                                      \
    CUresult result = REAL(driver, name)(__VA_ARGS__);                                             \
    if (result == CUDA_SUCCESS) {                                                                  \
        account_return(&held);                                                                     \
    } else {                                                                                       \
        account_restore(&held);                                                                    \
    }                                                                                              \
    return result;

CUresult gate_cuMemFree(struct driver *driver,
                        CUdeviceptr_v1 pointer){RELEASE(cuMemFree, pointer, pointer)}

CUresult gate_cuMemFree_v2(struct driver *driver,
                           CUdeviceptr pointer){RELEASE(cuMemFree_v2, pointer, pointer)}

/* Returned when asked for, not when the stream gets there: until then the pool holds it, which the
 * agent sees as unaccounted. */
CUresult gate_cuMemFreeAsync(struct driver *driver, CUdeviceptr pointer,
                             CUstream stream){RELEASE(cuMemFreeAsync, pointer, pointer, stream)}

CUresult gate_cuMemFreeAsync_ptsz(struct driver *driver, CUdeviceptr pointer, CUstream stream) {
    RELEASE(cuMemFreeAsync_ptsz, pointer, pointer, stream)
}
