/* External memory: objects that came as a descriptor. The only ones that a program can get here
 * are those of cuMemExportToShareableHandle; there is no Vulkan beside us. */
#include <stdlib.h>
#include <unistd.h>

#include "api.h"
#include "state/objects.h"

struct external {
    struct external *next;
    struct context *context;
    struct backing *backing;
    uint64_t bytes; /* as the importer has said */
};
static struct external *externals;

static struct external **find_link(CUexternalMemory handle) {
    struct external **link = &externals;
    while (*link && *link != handle)
        link = &(*link)->next;
    return link;
}

static CUresult import(struct context *context, uint64_t object, uint64_t bytes,
                       CUexternalMemory *out) {
    struct external *external = calloc(1, sizeof *external);
    struct backing *backing = external ? backing_import(object) : NULL;
    bool fits = backing && bytes && bytes <= backing->bytes;
    bool seen = fits && (backing->card == SIM_CARDS_MAX || device_of_card(backing->card) >= 0);
    if (!seen) {
        if (backing)
            backing_release(backing);
        free(external);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *external = (struct external){
        .next = externals, .context = context, .backing = backing, .bytes = bytes};
    externals = external;
    *out = external;
    return CUDA_SUCCESS;
}

/* An imported descriptor is the driver's: the driver closes it and holds the object. */
CUresult cuImportExternalMemory(CUexternalMemory *out,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !description || description->flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (description->type != CU_EXTERNAL_OPAQUE_FD)
        return description->type >= 1 && description->type <= 8 ? CUDA_ERROR_NOT_SUPPORTED
                                                                : CUDA_ERROR_INVALID_VALUE;
    uint64_t object = sim_object_of_fd(driver.state, description->handle.fd);
    if (!object)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    rc = import(context, object, description->size, out);
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS)
        close(description->handle.fd);
    return rc;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory handle,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description) {
    struct context *context;
    uint64_t address = 0;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !description || description->flags || !description->size)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct external *external = *find_link(handle);
    if (!external) {
        rc = CUDA_ERROR_INVALID_HANDLE;
    } else if (description->offset > external->bytes ||
               description->size > external->bytes - description->offset) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else {
        struct memory memory = {.kind = MEMORY_EXTERNAL,
                                .device = device_of_card(external->backing->card),
                                .context = context};
        external->backing->references++;
        address = backing_show(external->backing, description->offset, description->size, memory);
        if (!address)
            backing_release(external->backing);
        rc = address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS)
        *out = address;
    return rc;
}

CUresult cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray *out, CUexternalMemory handle,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *description) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !description)
        return CUDA_ERROR_INVALID_VALUE;
    rc = array_check(&description->arrayDesc);
    if (rc != CUDA_SUCCESS)
        return rc;
    uint64_t bytes = mipmap_bytes(&description->arrayDesc, description->numLevels);
    pthread_mutex_lock(&driver.lock);
    struct external *external = *find_link(handle);
    if (!external)
        rc = CUDA_ERROR_INVALID_HANDLE;
    else if (description->offset > external->bytes || bytes > external->bytes - description->offset)
        rc = CUDA_ERROR_INVALID_VALUE;
    else
        rc = mipmap_make(context, &description->arrayDesc, description->numLevels,
                         external->backing, out);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* Buffers and arrays on the object stay usable: each holds the memory itself. */
static void destroy(struct external **link) {
    struct external *external = *link;
    *link = external->next;
    backing_release(external->backing);
    free(external);
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct external **link = find_link(handle);
    bool known = handle && *link;
    if (known)
        destroy(link);
    pthread_mutex_unlock(&driver.lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void externals_drop(struct context *context) {
    for (struct external **link = &externals; *link;)
        if ((*link)->context == context)
            destroy(link);
        else
            link = &(*link)->next;
}
