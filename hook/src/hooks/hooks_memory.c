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

/* After the driver's answer, which the function returns. The program sees the pointer later: it
 * can't free what isn't kept yet. */
static CUresult settle(const struct charge *charge, CUresult result, CUdeviceptr pointer) {
    if (result == CUDA_SUCCESS) {
        account_keep(charge, ALLOCATION_POINTER, pointer);
    } else {
        account_cancel(charge);
    }
    return result;
}

CUresult gate_cuMemAlloc(struct driver *driver, CUdeviceptr_v1 *pointer, unsigned int bytes) {
    struct charge charge;
    CUdeviceptr_v1 given = 0;
    CUresult result = memory_begin(driver, bytes, &charge);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuMemAlloc)(pointer == NULL ? NULL : &given, bytes);
    settle(&charge, result, given);
    if (result == CUDA_SUCCESS) {
        *pointer = given;
    }
    return result;
}

CUresult gate_cuMemAlloc_v2(struct driver *driver, CUdeviceptr *pointer, size_t bytes) {
    struct charge charge;
    CUdeviceptr given = 0;
    CUresult result = memory_begin(driver, bytes, &charge);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuMemAlloc_v2)(pointer == NULL ? NULL : &given, bytes);
    settle(&charge, result, given);
    if (result == CUDA_SUCCESS) {
        *pointer = given;
    }
    return result;
}

CUresult gate_cuMemAllocManaged(struct driver *driver, CUdeviceptr *pointer, size_t bytes,
                                unsigned int flags) {
    struct charge charge;
    CUdeviceptr given = 0;
    CUresult result = memory_begin(driver, bytes, &charge);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuMemAllocManaged)(pointer == NULL ? NULL : &given, bytes, flags);
    settle(&charge, result, given);
    if (result == CUDA_SUCCESS) {
        *pointer = given;
    }
    return result;
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

/* Charges the area that the driver took, where that is more than the request. */
static CUresult settle_pitch(struct charge *charge, CUresult result, size_t area,
                             CUdeviceptr pointer) {
    if (result == CUDA_SUCCESS && area > charge->bytes) {
        result = account_resize(charge, area);
    }
    return settle(charge, result, pointer);
}

CUresult gate_cuMemAllocPitch(struct driver *driver, CUdeviceptr_v1 *pointer, unsigned int *pitch,
                              unsigned int width, unsigned int height, unsigned int element) {
    struct charge charge;
    CUresult result = memory_begin(driver, padded_area(width, height), &charge);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    CUdeviceptr_v1 given = 0;
    unsigned int row = 0;
    CUresult driver_result = REAL(driver, cuMemAllocPitch)(
        pointer == NULL ? NULL : &given, pitch == NULL ? NULL : &row, width, height, element);
    result = settle_pitch(&charge, driver_result, (size_t)row * height, given);
    if (result == CUDA_SUCCESS) {
        *pointer = given;
        *pitch = row;
    } else if (driver_result == CUDA_SUCCESS && REAL(driver, cuMemFree) != NULL) {
        REAL(driver, cuMemFree)(given);
    }
    return result;
}

CUresult gate_cuMemAllocPitch_v2(struct driver *driver, CUdeviceptr *pointer, size_t *pitch,
                                 size_t width, size_t height, unsigned int element) {
    struct charge charge;
    CUresult result = memory_begin(driver, padded_area(width, height), &charge);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    CUdeviceptr given = 0;
    size_t row = 0;
    CUresult driver_result = REAL(driver, cuMemAllocPitch_v2)(
        pointer == NULL ? NULL : &given, pitch == NULL ? NULL : &row, width, height, element);
    result = settle_pitch(&charge, driver_result, row * height, given);
    if (result == CUDA_SUCCESS) {
        *pointer = given;
        *pitch = row;
    } else if (driver_result == CUDA_SUCCESS && REAL(driver, cuMemFree_v2) != NULL) {
        REAL(driver, cuMemFree_v2)(given);
    }
    return result;
}

CUresult gate_cuMemFree(struct driver *driver, CUdeviceptr_v1 pointer) {
    struct pointer_release release = pointer_release_begin(pointer);
    return pointer_release_end(driver, &release, REAL(driver, cuMemFree)(pointer));
}

CUresult gate_cuMemFree_v2(struct driver *driver, CUdeviceptr pointer) {
    struct pointer_release release = pointer_release_begin(pointer);
    return pointer_release_end(driver, &release, REAL(driver, cuMemFree_v2)(pointer));
}
