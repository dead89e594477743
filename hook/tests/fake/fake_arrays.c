/* Arrays of the fake driver: handles and nothing behind them. */
#include "fake_driver.h"
#include "fake_launch.h"

enum { MAX_ARRAYS = 256 };

static struct {
    CUcontext context; /* NULL: free place */
    unsigned levels;   /* 0: an array */
} arrays[MAX_ARRAYS];
static unsigned long long needed_bytes;
static _Atomic size_t width_read;

void fake_set_array_bytes(unsigned long long bytes) { needed_bytes = bytes; }
size_t fake_array_width(void) { return width_read; }

static void *make(const void *description, unsigned levels, CUresult *result) {
    void *made = NULL;
    fake_lock();
    *result = fake_allocate_call();
    if (*result == CUDA_SUCCESS && fake_current() == NULL) {
        *result = CUDA_ERROR_INVALID_CONTEXT;
    }
    if (*result == CUDA_SUCCESS && description == NULL) {
        *result = CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; *result == CUDA_SUCCESS && made == NULL && i < MAX_ARRAYS; i++) {
        if (arrays[i].context == NULL) {
            arrays[i].context = fake_current();
            arrays[i].levels = levels;
            made = &arrays[i];
        }
    }
    fake_unlock();
    return made;
}

static CUresult destroy(void *array, bool mipmapped) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    for (unsigned i = 0; i < MAX_ARRAYS; i++) {
        if (&arrays[i] == array && arrays[i].context != NULL &&
            (arrays[i].levels != 0) == mipmapped) {
            arrays[i].context = NULL;
            result = CUDA_SUCCESS;
        }
    }
    fake_unlock();
    return result;
}

void fake_arrays_drop(CUcontext context) {
    for (unsigned i = 0; i < MAX_ARRAYS; i++) {
        if (arrays[i].context == context) {
            arrays[i].context = NULL;
        }
    }
}

#define CREATE(handle, levels)                                                                     \
    CUresult result;                                                                               \
    fake_take_turn();                                                                              \
    width_read = description == NULL ? 0 : description->Width;                                     \
    void *made = make(description, levels, &result);                                               \
    if (result == CUDA_SUCCESS) {                                                                  \
        *array = (handle)made;                                                                     \
    }                                                                                              \
    fake_take_turn();                                                                              \
    return result;

cuArrayCreate_fn cuArrayCreate;
CUresult cuArrayCreate(CUarray *array,
                       const CUDA_ARRAY_DESCRIPTOR_v1 *description){CREATE(CUarray, 0)}

cuArrayCreate_v2_fn cuArrayCreate_v2;
CUresult cuArrayCreate_v2(CUarray *array,
                          const CUDA_ARRAY_DESCRIPTOR *description){CREATE(CUarray, 0)}

cuArray3DCreate_fn cuArray3DCreate;
CUresult cuArray3DCreate(CUarray *array,
                         const CUDA_ARRAY3D_DESCRIPTOR_v1 *description){CREATE(CUarray, 0)}

cuArray3DCreate_v2_fn cuArray3DCreate_v2;
CUresult cuArray3DCreate_v2(CUarray *array,
                            const CUDA_ARRAY3D_DESCRIPTOR *description){CREATE(CUarray, 0)}

cuMipmappedArrayCreate_fn cuMipmappedArrayCreate;
CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *description,
                                unsigned int levels){CREATE(CUmipmappedArray, levels + 1)}

cuArrayDestroy_fn cuArrayDestroy;
CUresult cuArrayDestroy(CUarray array) { return destroy(array, false); }

cuMipmappedArrayDestroy_fn cuMipmappedArrayDestroy;
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) { return destroy(array, true); }

static CUresult tell(CUDA_ARRAY_MEMORY_REQUIREMENTS *needed) {
    needed->size = needed_bytes;
    return needed_bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

cuArrayGetMemoryRequirements_fn cuArrayGetMemoryRequirements;
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needed, CUarray array,
                                      CUdevice device) {
    (void)array, (void)device;
    return tell(needed);
}

cuMipmappedArrayGetMemoryRequirements_fn cuMipmappedArrayGetMemoryRequirements;
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needed,
                                               CUmipmappedArray array, CUdevice device) {
    (void)array, (void)device;
    return tell(needed);
}
