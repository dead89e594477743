/* cuMemCreate: memory without an address, by handle. The memory lives until its handles are
 * released and its mappings are gone, through any end of contexts. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "state/objects.h"

static struct physical *allocations;

/* Handles are checked, although the real driver leaves a bad one undefined: a hook's mistakes show
 * as errors. */
struct physical *physical_find(CUmemGenericAllocationHandle handle) {
    for (struct physical *at = allocations; at; at = at->next)
        if ((CUmemGenericAllocationHandle)(uintptr_t)at == handle)
            return at->handles ? at : NULL;
    return NULL;
}

CUresult check_location(const CUmemLocation *location, uint32_t *card) {
    *card = SIM_CARDS_MAX;
    if (location->type == CU_MEM_LOCATION_HOST_NUMA)
        return location->id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return device_card(location->id, card);
}

static CUresult check_properties(const CUmemAllocationProp *properties, uint32_t *card) {
    if (properties->type != CU_MEM_ALLOCATION_PINNED || properties->win32HandleMetaData)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->requestedHandleTypes & ~CU_MEM_HANDLE_POSIX_FD)
        return CUDA_ERROR_NOT_SUPPORTED; /* the other two are Windows's */
    return check_location(&properties->location, card);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                       int option) {
    uint32_t card;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!granularity || !properties || option < 0 || option > 1)
        return CUDA_ERROR_INVALID_VALUE;
    rc = check_properties(properties, &card);
    if (rc == CUDA_SUCCESS)
        *granularity = GRANULE_BYTES;
    return rc;
}

CUresult physical_add(struct backing *backing, const CUmemAllocationProp *properties,
                      CUmemGenericAllocationHandle *handle) {
    struct physical *physical = calloc(1, sizeof *physical);
    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *physical = (struct physical){.next = allocations,
                                  .link = &allocations,
                                  .handles = 1,
                                  .backing = backing,
                                  .properties = *properties};
    if (allocations)
        allocations->link = &physical->next;
    allocations = physical;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}

void physical_settle(struct physical *physical) {
    if (physical->handles || physical->mappings)
        return;
    *physical->link = physical->next;
    if (physical->next)
        physical->next->link = physical->link;
    backing_release(physical->backing);
    free(physical);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags) {
    uint32_t card;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!handle || !properties || flags || !bytes || bytes % GRANULE_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    rc = check_properties(properties, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct backing *backing = backing_make(card, bytes, properties->requestedHandleTypes);
    rc = backing ? physical_add(backing, properties, handle) : CUDA_ERROR_OUT_OF_MEMORY;
    if (backing && rc != CUDA_SUCCESS)
        backing_release(backing);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct physical *physical = physical_find(handle);
    if (physical) {
        physical->handles--;
        physical_settle(physical);
    }
    pthread_mutex_unlock(&driver.lock);
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct memory *memory = memory_find((uintptr_t)address);
    bool mapped = handle && memory && memory->kind == MEMORY_VIRTUAL;
    if (mapped) {
        memory->physical->handles++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)memory->physical;
    }
    pthread_mutex_unlock(&driver.lock);
    return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                CUmemGenericAllocationHandle handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct physical *physical = physical_find(handle);
    if (physical && properties)
        *properties = physical->properties;
    pthread_mutex_unlock(&driver.lock);
    return physical && properties ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, int type,
                                      unsigned long long flags) {
    CUresult rc = driver_ready();
    int fd = -1;
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct physical *physical = physical_find(handle);
    bool allowed = physical && out && !flags && type == CU_MEM_HANDLE_POSIX_FD &&
                   (physical->properties.requestedHandleTypes & type);
    if (allowed)
        fd = sim_object_open(physical->backing->object, true);
    pthread_mutex_unlock(&driver.lock);
    if (!allowed)
        return CUDA_ERROR_INVALID_VALUE;
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

/* An allocation that this process has already gets one more handle of the same value. */
static CUresult import(uint64_t object, CUmemGenericAllocationHandle *handle) {
    struct backing *backing = backing_import(object);
    if (!backing)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct physical *at = allocations; at; at = at->next)
        if (at->backing == backing) {
            backing_release(backing);
            at->handles++;
            *handle = (CUmemGenericAllocationHandle)(uintptr_t)at;
            return CUDA_SUCCESS;
        }
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_POSIX_FD};
    bool on_host = backing->card == SIM_CARDS_MAX;
    properties.location.type = on_host ? CU_MEM_LOCATION_HOST_NUMA : CU_MEM_LOCATION_DEVICE;
    properties.location.id = on_host ? 0 : device_of_card(backing->card);
    CUresult rc = CUDA_ERROR_NOT_SUPPORTED; /* of a card that this process does not see */
    if (properties.location.id >= 0)
        rc = physical_add(backing, &properties, handle);
    if (rc != CUDA_SUCCESS)
        backing_release(backing);
    return rc;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
                                        int type) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (type != CU_MEM_HANDLE_POSIX_FD)
        return type == CU_MEM_HANDLE_NONE ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    uint64_t object = sim_object_of_fd(driver.state, (int)(intptr_t)os_handle);
    if (!handle || !object)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    rc = import(object, handle);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}
