/* Mipmapped arrays: all levels are one piece of memory. */
#include <stdlib.h>

#include "array.h"

static CUDA_ARRAY3D_DESCRIPTOR level_of(const CUDA_ARRAY3D_DESCRIPTOR *base, unsigned level) {
    CUDA_ARRAY3D_DESCRIPTOR d = *base;
    bool layers = d.Flags & (CU_ARRAY_LAYERED | CU_ARRAY_CUBEMAP);
    d.Width = d.Width >> level ? d.Width >> level : 1;
    d.Height = d.Height && !(d.Height >> level) ? 1 : d.Height >> level;
    if (!layers)
        d.Depth = d.Depth && !(d.Depth >> level) ? 1 : d.Depth >> level;
    return d;
}

/* At most 1 + floor(log2(the longest edge)), at least one, for any request. */
static unsigned levels_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned wanted) {
    bool layers = d->Flags & (CU_ARRAY_LAYERED | CU_ARRAY_CUBEMAP);
    uint64_t edge = d->Width > d->Height ? d->Width : d->Height;
    if (!layers && d->Depth > edge)
        edge = d->Depth;
    unsigned most = 1;
    while (edge >>= 1)
        most++;
    wanted = wanted ? wanted : 1;
    return wanted < most ? wanted : most;
}

uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels) {
    uint64_t bytes = 0;
    for (unsigned level = 0; level < levels_of(descriptor, levels); level++) {
        CUDA_ARRAY3D_DESCRIPTOR d = level_of(descriptor, level);
        bytes += array_bytes(&d);
    }
    return bytes;
}

struct mipmap *mipmap_find(CUmipmappedArray handle) {
    for (struct context *context = driver.contexts; context && handle; context = context->next)
        for (struct mipmap *at = context->mipmaps; at; at = at->next)
            if (at == handle)
                return at;
    return NULL;
}

static void remove_mipmap(struct mipmap *mipmap) {
    struct mipmap **link = &mipmap->context->mipmaps;
    for (unsigned level = 0; level < mipmap->count; level++)
        if (mipmap->levels[level])
            array_remove(mipmap->levels[level]);
    while (*link != mipmap)
        link = &(*link)->next;
    *link = mipmap->next;
    if (mipmap->backing)
        backing_release(mipmap->backing);
    if (mipmap->memory.bytes)
        heap_give(&mipmap->memory);
    free(mipmap);
}

static bool add_levels(struct mipmap *mipmap) {
    for (unsigned level = 0; level < mipmap->count; level++) {
        CUDA_ARRAY3D_DESCRIPTOR descriptor = level_of(&mipmap->descriptor, level);
        mipmap->levels[level] = array_add(mipmap->context, &descriptor, 0);
        if (!mipmap->levels[level])
            return false;
        mipmap->levels[level]->mipmap = mipmap;
    }
    return true;
}

CUresult mipmap_make(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                     unsigned levels, struct backing *backing, struct mipmap **out) {
    struct mipmap *mipmap = calloc(1, sizeof *mipmap);
    bool lent = backing || array_is_deferred(descriptor);
    uint64_t bytes = lent ? 0 : mipmap_bytes(descriptor, levels);
    if (!mipmap || !array_memory(context, bytes, &mipmap->memory)) {
        free(mipmap);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mipmap->next = context->mipmaps;
    mipmap->context = context;
    mipmap->descriptor = *descriptor;
    mipmap->count = levels_of(descriptor, levels);
    mipmap->backing = backing;
    context->mipmaps = mipmap;
    if (backing)
        backing->references++;
    if (!add_levels(mipmap)) {
        remove_mipmap(mipmap);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = mipmap;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                unsigned levels) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !descriptor)
        return CUDA_ERROR_INVALID_VALUE;
    rc = array_check(descriptor);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = mipmap_make(context, descriptor, levels, NULL, out);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle, unsigned level) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct mipmap *mipmap = mipmap_find(handle);
    if (!mipmap)
        rc = CUDA_ERROR_INVALID_HANDLE;
    else if (!out || level >= mipmap->count)
        rc = CUDA_ERROR_INVALID_VALUE;
    else
        *out = mipmap->levels[level];
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct mipmap *mipmap = mipmap_find(handle);
    if (mipmap)
        remove_mipmap(mipmap);
    pthread_mutex_unlock(&driver.lock);
    return mipmap ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void arrays_drop(struct context *context) {
    while (context->mipmaps)
        remove_mipmap(context->mipmaps);
    while (context->arrays)
        array_remove(context->arrays);
}
