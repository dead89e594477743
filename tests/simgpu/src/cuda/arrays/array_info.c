/* Answers of arrays about themselves. */
#include <string.h>

#include "array.h"

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    const struct array *array = array_find(handle);
    if (array)
        *out = array->descriptor;
    pthread_mutex_unlock(&driver.lock);
    return array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *out, CUarray handle) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUresult rc = out ? cuArray3DGetDescriptor_v2(&d, handle) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *out =
            (CUDA_ARRAY3D_DESCRIPTOR_v1){(unsigned)d.Width, (unsigned)d.Height, (unsigned)d.Depth,
                                         d.Format,          d.NumChannels,      d.Flags};
    return rc;
}

/* A 3D array has no such description. */
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out, CUarray handle) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUresult rc = out ? cuArray3DGetDescriptor_v2(&d, handle) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && d.Depth)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *out = (CUDA_ARRAY_DESCRIPTOR){d.Width, d.Height, d.Format, d.NumChannels};
    return rc;
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *out, CUarray handle) {
    CUDA_ARRAY_DESCRIPTOR d;
    CUresult rc = out ? cuArrayGetDescriptor_v2(&d, handle) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *out = (CUDA_ARRAY_DESCRIPTOR_v1){(unsigned)d.Width, (unsigned)d.Height, d.Format,
                                          d.NumChannels};
    return rc;
}

/* Only of arrays with deferred mapping, as documented. */
static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
                             const CUDA_ARRAY3D_DESCRIPTOR *descriptor, uint64_t bytes) {
    if (!(descriptor->Flags & CU_ARRAY_DEFERRED))
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof *out);
    out->size = round_up(bytes, TILE_BYTES);
    out->alignment = TILE_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray handle,
                                      CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct array *array = array_find(handle);
    rc = CUDA_ERROR_INVALID_VALUE;
    if (array && out)
        rc = requirements(out, &array->descriptor, array_bytes(&array->descriptor));
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
                                               CUmipmappedArray handle, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct mipmap *mipmap = mipmap_find(handle);
    rc = CUDA_ERROR_INVALID_VALUE;
    if (mipmap && out)
        rc = requirements(out, &mipmap->descriptor,
                          mipmap_bytes(&mipmap->descriptor, mipmap->count));
    pthread_mutex_unlock(&driver.lock);
    return rc;
}
