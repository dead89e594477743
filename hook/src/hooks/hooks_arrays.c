#include "hooks/hooks_arrays.h"

#include "hooks/current_context.h"
#include "hooks/hooks_memory.h"
#include "memory/array_size.h"

/* A missing description is the driver's to refuse: nothing is charged for it. */
static const CUDA_ARRAY3D_DESCRIPTOR missing = {.Flags = CUDA_ARRAY3D_SPARSE};

static CUDA_ARRAY3D_DESCRIPTOR widened(const CUDA_ARRAY3D_DESCRIPTOR_v1 *array) {
    if (array == NULL) {
        return missing;
    }
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = array->Width,
                                     .Height = array->Height,
                                     .Depth = array->Depth,
                                     .Format = array->Format,
                                     .NumChannels = array->NumChannels,
                                     .Flags = array->Flags};
}

static CUDA_ARRAY3D_DESCRIPTOR flat(const CUDA_ARRAY_DESCRIPTOR *array) {
    if (array == NULL) {
        return missing;
    }
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = array->Width,
                                     .Height = array->Height,
                                     .Format = array->Format,
                                     .NumChannels = array->NumChannels};
}

static CUDA_ARRAY3D_DESCRIPTOR flat_widened(const CUDA_ARRAY_DESCRIPTOR_v1 *array) {
    if (array == NULL) {
        return missing;
    }
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = array->Width,
                                     .Height = array->Height,
                                     .Format = array->Format,
                                     .NumChannels = array->NumChannels};
}

/* `bytes` 0: the array takes no memory of the card, and isn't charged. */
struct creation {
    uint64_t bytes;
    struct charge charge;
};

static CUresult begin(struct driver *driver, const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned levels,
                      struct creation *creation) {
    creation->bytes = array_bytes(array == NULL ? &missing : array, levels);
    return creation->bytes == 0 ? CUDA_SUCCESS
                                : memory_begin(driver, creation->bytes, &creation->charge);
}

/* Keeps the charge at the driver's size, where the driver tells one; else it returns the charge. */
static CUresult settle(struct charge *charge, uint64_t needed, enum allocation_kind kind,
                       uint64_t handle) {
    if (needed != 0 && needed != charge->bytes) {
        CUresult result = account_resize(charge, needed);
        if (result != CUDA_SUCCESS) {
            account_cancel(charge);
            return result;
        }
    }
    account_keep(charge, kind, handle);
    return CUDA_SUCCESS;
}

/* The driver's size of an array of the current context; 0: the driver doesn't tell. */
static uint64_t needed_by_array(struct driver *driver, CUarray array) {
    cuArrayGetMemoryRequirements_fn *get = REAL(driver, cuArrayGetMemoryRequirements);
    CUDA_ARRAY_MEMORY_REQUIREMENTS needed = {.size = 0};
    CUdevice device;
    bool known = get != NULL && REAL(driver, cuCtxGetDevice)(&device) == CUDA_SUCCESS &&
                 get(&needed, array, device) == CUDA_SUCCESS;
    return known ? needed.size : 0;
}

static uint64_t needed_by_mipmap(struct driver *driver, CUmipmappedArray array) {
    cuMipmappedArrayGetMemoryRequirements_fn *get =
        REAL(driver, cuMipmappedArrayGetMemoryRequirements);
    CUDA_ARRAY_MEMORY_REQUIREMENTS needed = {.size = 0};
    CUdevice device;
    bool known = get != NULL && REAL(driver, cuCtxGetDevice)(&device) == CUDA_SUCCESS &&
                 get(&needed, array, device) == CUDA_SUCCESS;
    return known ? needed.size : 0;
}

/* After the driver's answer: `array` is the program's, `made` the driver's. */
static CUresult end_array(struct driver *driver, struct creation *creation, CUresult result,
                          CUarray made, CUarray *array) {
    if (result != CUDA_SUCCESS && creation->bytes != 0) {
        account_cancel(&creation->charge);
    } else if (result == CUDA_SUCCESS && creation->bytes != 0) {
        result = settle(&creation->charge, needed_by_array(driver, made), ALLOCATION_ARRAY,
                        (uint64_t)made);
        if (result != CUDA_SUCCESS && REAL(driver, cuArrayDestroy) != NULL) {
            REAL(driver, cuArrayDestroy)(made);
        }
    }
    if (result == CUDA_SUCCESS) {
        *array = made;
    }
    return result;
}

CUresult gate_cuArrayCreate(struct driver *driver, CUarray *array,
                            const CUDA_ARRAY_DESCRIPTOR_v1 *description) {
    description = READ_ONCE(driver, description);
    const CUDA_ARRAY3D_DESCRIPTOR wanted = flat_widened(description);
    struct creation creation;
    CUarray made = NULL;
    CUresult result = begin(driver, &wanted, 1, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuArrayCreate)(array == NULL ? NULL : &made, description);
    return end_array(driver, &creation, result, made, array);
}

CUresult gate_cuArrayCreate_v2(struct driver *driver, CUarray *array,
                               const CUDA_ARRAY_DESCRIPTOR *description) {
    description = READ_ONCE(driver, description);
    const CUDA_ARRAY3D_DESCRIPTOR wanted = flat(description);
    struct creation creation;
    CUarray made = NULL;
    CUresult result = begin(driver, &wanted, 1, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuArrayCreate_v2)(array == NULL ? NULL : &made, description);
    return end_array(driver, &creation, result, made, array);
}

CUresult gate_cuArray3DCreate(struct driver *driver, CUarray *array,
                              const CUDA_ARRAY3D_DESCRIPTOR_v1 *description) {
    description = READ_ONCE(driver, description);
    const CUDA_ARRAY3D_DESCRIPTOR wanted = widened(description);
    struct creation creation;
    CUarray made = NULL;
    CUresult result = begin(driver, &wanted, 1, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuArray3DCreate)(array == NULL ? NULL : &made, description);
    return end_array(driver, &creation, result, made, array);
}

CUresult gate_cuArray3DCreate_v2(struct driver *driver, CUarray *array,
                                 const CUDA_ARRAY3D_DESCRIPTOR *description) {
    description = READ_ONCE(driver, description);
    struct creation creation;
    CUarray made = NULL;
    CUresult result = begin(driver, description, 1, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuArray3DCreate_v2)(array == NULL ? NULL : &made, description);
    return end_array(driver, &creation, result, made, array);
}

CUresult gate_cuMipmappedArrayCreate(struct driver *driver, CUmipmappedArray *array,
                                     const CUDA_ARRAY3D_DESCRIPTOR *description,
                                     unsigned int levels) {
    description = READ_ONCE(driver, description);
    struct creation creation;
    CUmipmappedArray made = NULL;
    CUresult result = begin(driver, description, levels, &creation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result =
        REAL(driver, cuMipmappedArrayCreate)(array == NULL ? NULL : &made, description, levels);
    if (result != CUDA_SUCCESS && creation.bytes != 0) {
        account_cancel(&creation.charge);
    } else if (result == CUDA_SUCCESS && creation.bytes != 0) {
        result = settle(&creation.charge, needed_by_mipmap(driver, made), ALLOCATION_MIPMAP,
                        (uint64_t)made);
        if (result != CUDA_SUCCESS && REAL(driver, cuMipmappedArrayDestroy) != NULL) {
            REAL(driver, cuMipmappedArrayDestroy)(made);
        }
    }
    if (result == CUDA_SUCCESS) {
        *array = made;
    }
    return result;
}

CUresult gate_cuArrayDestroy(struct driver *driver, CUarray array) {
    struct account_release release = account_release_begin(ALLOCATION_ARRAY, (uint64_t)array);
    CUresult result = REAL(driver, cuArrayDestroy)(array);
    account_release_end(&release, result == CUDA_SUCCESS);
    return result;
}

CUresult gate_cuMipmappedArrayDestroy(struct driver *driver, CUmipmappedArray array) {
    struct account_release release = account_release_begin(ALLOCATION_MIPMAP, (uint64_t)array);
    CUresult result = REAL(driver, cuMipmappedArrayDestroy)(array);
    account_release_end(&release, result == CUDA_SUCCESS);
    return result;
}
