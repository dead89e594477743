#include "hooks/hooks_memory.h"

#include "hooks/current_context.h"

CUresult memory_begin(struct driver *driver, uint64_t bytes, struct charge *charge) {
    struct current_context current;
    *charge = (struct charge){.context = 0};
    CUresult result = current_context_get(driver, &current);
    if (result != CUDA_SUCCESS || current.handle == NULL) {
        return result;
    }
    result = account_charge(&current, bytes, charge);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && mempool_driver_reclaim(driver)) {
        result = account_charge(&current, bytes, charge);
    }
    return result;
}

CUresult memory_settle(const struct charge *charge, CUresult result, enum allocation_kind kind,
                       uint64_t handle) {
    if (result == CUDA_SUCCESS) {
        account_keep(charge, kind, handle);
    } else {
        account_cancel(charge);
    }
    return result;
}

#define ALLOCATE(name, pointer, bytes, ...)                                                        \
    struct charge charge;                                                                          \
    CUresult result = memory_begin(driver, bytes, &charge);                                        \
    if (result != CUDA_SUCCESS) {                                                                  \
        return result;                                                                             \
    }                                                                                              \
    result = REAL(driver, name)(__VA_ARGS__);                                                      \
    return memory_settle(&charge, result, ALLOCATION_POINTER,                                      \
                         result == CUDA_SUCCESS ? *(pointer) : 0);

CUresult gate_cuMemAlloc(struct driver *driver, CUdeviceptr_v1 *pointer,
                         unsigned int bytes){ALLOCATE(cuMemAlloc, pointer, bytes, pointer, bytes)}

CUresult gate_cuMemAlloc_v2(struct driver *driver, CUdeviceptr *pointer,
                            size_t bytes){ALLOCATE(cuMemAlloc_v2, pointer, bytes, pointer, bytes)}

CUresult gate_cuMemAllocManaged(struct driver *driver, CUdeviceptr *pointer, size_t bytes,
                                unsigned int flags) {
    ALLOCATE(cuMemAllocManaged, pointer, bytes, pointer, bytes, flags)
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
static CUresult settle_pitch(struct charge *charge, size_t area, CUdeviceptr pointer) {
    if (area > charge->bytes) {
        CUresult result = account_resize(charge, area);
        if (result != CUDA_SUCCESS) {
            account_cancel(charge);
            return result;
        }
    }
    account_keep(charge, ALLOCATION_POINTER, pointer);
    return CUDA_SUCCESS;
}

#define ALLOCATE_PITCH(name, release, ...)                                                         \
    struct charge charge;                                                                          \
    CUresult result = memory_begin(driver, padded_area(width, height), &charge);                   \
    if (result != CUDA_SUCCESS) {                                                                  \
        return result;                                                                             \
    }                                                                                              \
    __typeof__(*pointer) given = 0;                                                                \
    __typeof__(*pitch) row = 0;                                                                    \
    result = REAL(driver, name)(pointer == NULL ? NULL : &given, pitch == NULL ? NULL : &row,      \
                                __VA_ARGS__);                                                      \
    if (result != CUDA_SUCCESS) {                                                                  \
        account_cancel(&charge);                                                                   \
        return result;                                                                             \
    }                                                                                              \
    result = settle_pitch(&charge, (size_t)row * height, given);                                   \
    release##_fn *give_back = REAL(driver, release);                                               \
    if (result == CUDA_SUCCESS) {                                                                  \
        *pointer = given;                                                                          \
        *pitch = row;                                                                              \
    } else if (give_back != NULL) {                                                                \
        give_back(given);                                                                          \
    }                                                                                              \
    return result;

CUresult gate_cuMemAllocPitch(struct driver *driver, CUdeviceptr_v1 *pointer, unsigned int *pitch,
                              unsigned int width, unsigned int height, unsigned int element){
    ALLOCATE_PITCH(cuMemAllocPitch, cuMemFree, width, height, element)}

CUresult gate_cuMemAllocPitch_v2(struct driver *driver, CUdeviceptr *pointer, size_t *pitch,
                                 size_t width, size_t height, unsigned int element){
    ALLOCATE_PITCH(cuMemAllocPitch_v2, cuMemFree_v2, width, height, element)}

CUresult gate_cuMemFree(struct driver *driver,
                        CUdeviceptr_v1 pointer){RELEASE_POINTER(cuMemFree, pointer, pointer)}

CUresult gate_cuMemFree_v2(struct driver *driver, CUdeviceptr pointer) {
    RELEASE_POINTER(cuMemFree_v2, pointer, pointer)
}
