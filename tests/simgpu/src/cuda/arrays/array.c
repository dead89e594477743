/* CUDA arrays: memory without an address, in a layout of the driver's.
 *
 * Rows are padded to 64 bytes and counted up to a multiple of 8: a block of that size is what the
 * card stores together. The whole is taken as any request is: a small one shares a granule. */
#include "array.h"

#include <stdlib.h>

#define ROW_BYTES 64ULL
#define ROWS 8ULL

/* Bytes of a channel; 0: not a format that arrays can be made of here. */
static unsigned channel_bytes(int format) {
    switch (format) {
    case 0x01: /* 8 bits, unsigned and signed */
    case 0x08:
        return 1;
    case 0x02: /* 16 bits; half */
    case 0x09:
    case 0x10:
        return 2;
    case 0x03: /* 32 bits; float */
    case 0x0a:
    case 0x20:
        return 4;
    default:
        return 0;
    }
}

/* Largest extents of an A100 (compute capability 8.0), by the table of technical specifications
 * in the programming guide. */
static bool extents_fit(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    bool layered = d->Flags & CU_ARRAY_LAYERED, cube = d->Flags & CU_ARRAY_CUBEMAP;
    if (cube)
        return d->Width == d->Height && d->Width <= 32768 && d->Depth % 6 == 0 && d->Depth &&
               (layered ? d->Depth <= 2046 : d->Depth == 6);
    if (layered)
        return d->Depth && d->Depth <= 2048 && d->Width <= 32768 && d->Height <= 32768;
    if (d->Depth)
        return d->Height && d->Width <= 16384 && d->Height <= 16384 && d->Depth <= 16384;
    if (d->Flags & CU_ARRAY_GATHER)
        return d->Height && d->Width <= 32768 && d->Height <= 32768;
    if (!d->Height && (d->Flags & CU_ARRAY_SURFACE))
        return d->Width <= 32768;
    return d->Width <= 131072 && d->Height <= 65536;
}

CUresult array_check(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    bool channels = d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4;
    bool good =
        channel_bytes(d->Format) && channels && d->Width && d->Flags <= 0xff && extents_fit(d);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    uint64_t row = round_up(d->Width * d->NumChannels * channel_bytes(d->Format), ROW_BYTES);
    uint64_t rows = d->Height ? round_up(d->Height, ROWS) : 1;
    return row * rows * (d->Depth ? d->Depth : 1);
}

bool array_is_deferred(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    return d->Flags & (CU_ARRAY_SPARSE | CU_ARRAY_DEFERRED);
}

struct array *array_find(CUarray handle) {
    for (struct context *context = driver.contexts; context && handle; context = context->next)
        for (struct array *at = context->arrays; at; at = at->next)
            if (at == handle)
                return at;
    return NULL;
}

bool array_memory(struct context *context, uint64_t bytes, struct memory *memory) {
    *memory = (struct memory){.bytes = bytes, .kind = MEMORY_DEVICE, .context = context};
    if (!bytes || heap_take(memory, false))
        return true;
    memory->bytes = 0;
    return false;
}

struct array *array_add(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                        uint64_t bytes) {
    struct array *array = calloc(1, sizeof *array);
    if (!array || !array_memory(context, bytes, &array->memory)) {
        free(array);
        return NULL;
    }
    array->next = context->arrays;
    array->context = context;
    array->descriptor = *descriptor;
    context->arrays = array;
    return array;
}

void array_remove(struct array *array) {
    struct array **link = &array->context->arrays;
    while (*link != array)
        link = &(*link)->next;
    *link = array->next;
    if (array->memory.bytes)
        heap_give(&array->memory);
    free(array);
}

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc == CUDA_SUCCESS)
        rc = array_check(descriptor);
    if (rc != CUDA_SUCCESS)
        return rc;
    uint64_t bytes = array_is_deferred(descriptor) ? 0 : array_bytes(descriptor);
    pthread_mutex_lock(&driver.lock);
    struct array *array = array_add(context, descriptor, bytes);
    pthread_mutex_unlock(&driver.lock);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = array;
    return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    return out && d ? create(out, d) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArray3DCreate(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d) {
    if (!out || !d)
        return CUDA_ERROR_INVALID_VALUE;
    return create(out, &(CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, d->Depth, d->Format,
                                                  d->NumChannels, d->Flags});
}

CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
    if (!out || !d)
        return CUDA_ERROR_INVALID_VALUE;
    return create(out,
                  &(CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0});
}

CUresult cuArrayCreate(CUarray *out, const CUDA_ARRAY_DESCRIPTOR_v1 *d) {
    if (!out || !d)
        return CUDA_ERROR_INVALID_VALUE;
    return create(out,
                  &(CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0});
}

/* A level goes with its mipmapped array only. */
CUresult cuArrayDestroy(CUarray handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct array *array = array_find(handle);
    if (!array || array->mipmap)
        rc = CUDA_ERROR_INVALID_HANDLE;
    else
        array_remove(array);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}
