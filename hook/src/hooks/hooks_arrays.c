#include "hooks/hooks_arrays.h"

#include "hooks/hooks_memory.h"
#include "memory/array_size.h"

static CUDA_ARRAY3D_DESCRIPTOR widened(const CUDA_ARRAY3D_DESCRIPTOR_v1 *array) {
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = array->Width,
                                     .Height = array->Height,
                                     .Depth = array->Depth,
                                     .Format = array->Format,
                                     .NumChannels = array->NumChannels,
                                     .Flags = array->Flags};
}

static CUDA_ARRAY3D_DESCRIPTOR flat(const CUDA_ARRAY_DESCRIPTOR *array) {
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = array->Width,
                                     .Height = array->Height,
                                     .Format = array->Format,
                                     .NumChannels = array->NumChannels};
}

static CUDA_ARRAY3D_DESCRIPTOR flat_widened(const CUDA_ARRAY_DESCRIPTOR_v1 *array) {
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = array->Width,
                                     .Height = array->Height,
                                     .Format = array->Format,
                                     .NumChannels = array->NumChannels};
}

/* The driver's word for what an array of the current context needs; 0: it doesn't say. */
#define NEEDED(driver, name, handle, bytes)                                                        \
    cuCtxGetDevice_fn *get_device = REAL(driver, cuCtxGetDevice);                                  \
    name##_fn *get = REAL(driver, name);                                                           \
    CUDA_ARRAY_MEMORY_REQUIREMENTS needed = {.size = 0};                                           \
    CUdevice device;                                                                               \
    bool known = get != NULL && get_device(&device) == CUDA_SUCCESS &&                             \
                 get(&needed, handle, device) == CUDA_SUCCESS;                                     \
    uint64_t bytes = known ? needed.size : 0;

/* Keeps the charge as the driver wants it; else nothing stays charged. */
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

static CUresult settle_array(struct driver *driver, struct charge *charge, CUarray array) {
    NEEDED(driver, cuArrayGetMemoryRequirements, array, bytes)
    CUresult result = settle(charge, bytes, ALLOCATION_ARRAY, (uint64_t)array);
    cuArrayDestroy_fn *destroy = REAL(driver, cuArrayDestroy);
    if (result != CUDA_SUCCESS && destroy != NULL) {
        destroy(array);
    }
    return result;
}

static CUresult settle_mipmap(struct driver *driver, struct charge *charge,
                              CUmipmappedArray array) {
    NEEDED(driver, cuMipmappedArrayGetMemoryRequirements, array, bytes)
    CUresult result = settle(charge, bytes, ALLOCATION_MIPMAP, (uint64_t)array);
    cuMipmappedArrayDestroy_fn *destroy = REAL(driver, cuMipmappedArrayDestroy);
    if (result != CUDA_SUCCESS && destroy != NULL) {
        destroy(array);
    }
    return result;
}

/* A missing description is the driver's to refuse. */
#define CREATE(name, settle_kind, array, description, wide, levels, ...)                           \
    CUDA_ARRAY3D_DESCRIPTOR wanted = {.Flags = CUDA_ARRAY3D_SPARSE};                               \
    if ((description) != NULL) {                                                                   \
        wanted = wide;                                                                             \
    }                                                                                              \
    uint64_t wanted_bytes = array_bytes(&wanted, levels);                                          \
    if (wanted_bytes == 0) {                                                                       \
        return REAL(driver, name)(array, __VA_ARGS__);                                             \
    }                                                                                              \
    struct charge charge;                                                                          \
    CUresult result = memory_begin(driver, wanted_bytes, &charge);                                 \
    if (result != CUDA_SUCCESS) {                                                                  \
        return result;                                                                             \
    }                                                                                              \
    __typeof__(*array) made = NULL;                                                                \
    result = REAL(driver, name)(array == NULL ? NULL : &made, __VA_ARGS__);                        \
    if (result != CUDA_SUCCESS) {                                                                  \
        account_cancel(&charge);                                                                   \
        return result;                                                                             \
    }                                                                                              \
    result = settle_kind(driver, &charge, made);                                                   \
    if (result == CUDA_SUCCESS) {                                                                  \
        *array = made;                                                                             \
    }                                                                                              \
    return result;

CUresult gate_cuArrayCreate(struct driver *driver, CUarray *array,
                            const CUDA_ARRAY_DESCRIPTOR_v1 *description){
    CREATE(cuArrayCreate, settle_array, array, description, flat_widened(description), 1,
           description)}

CUresult gate_cuArrayCreate_v2(struct driver *driver, CUarray *array,
                               const CUDA_ARRAY_DESCRIPTOR *description){
    CREATE(cuArrayCreate_v2, settle_array, array, description, flat(description), 1, description)}

CUresult gate_cuArray3DCreate(struct driver *driver, CUarray *array,
                              const CUDA_ARRAY3D_DESCRIPTOR_v1 *description){
    CREATE(cuArray3DCreate, settle_array, array, description, widened(description), 1, description)}

CUresult gate_cuArray3DCreate_v2(struct driver *driver, CUarray *array,
                                 const CUDA_ARRAY3D_DESCRIPTOR *description){
    CREATE(cuArray3DCreate_v2, settle_array, array, description, *description, 1, description)}

CUresult
    gate_cuMipmappedArrayCreate(struct driver *driver, CUmipmappedArray *array,
                                const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int levels){
        CREATE(cuMipmappedArrayCreate, settle_mipmap, array, description, *description, levels,
               description, levels)}

CUresult gate_cuArrayDestroy(struct driver *driver,
                             CUarray array){RELEASE(cuArrayDestroy, ALLOCATION_ARRAY, array, array)}

CUresult gate_cuMipmappedArrayDestroy(struct driver *driver, CUmipmappedArray array) {
    RELEASE(cuMipmappedArrayDestroy, ALLOCATION_MIPMAP, array, array)
}
