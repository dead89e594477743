/* Reserved address ranges, and allocations mapped into them. A range and its mappings belong to
 * the process: no context takes them along. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api.h"

struct range {
    struct range *next;
    uint64_t base, bytes;
};
static struct range *ranges;

static struct range *range_find(uint64_t address) {
    for (struct range *at = ranges; at; at = at->next)
        if (address - at->base < at->bytes)
            return at;
    return NULL;
}

bool reservation_find(uint64_t address, uint64_t *base, uint64_t *bytes) {
    const struct range *range = range_find(address);
    if (range) {
        *base = range->base;
        *bytes = range->bytes;
    }
    return range != NULL;
}

/* Address space without memory; MAP_FIXED_NOREPLACE would fail at a taken address, and the real
 * driver doesn't: to it the caller's address is a hint. */
static uint64_t reserve(uint64_t bytes, uint64_t alignment, uint64_t wish) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *wide = mmap((void *)(uintptr_t)wish, bytes + alignment, PROT_NONE, flags, -1, 0);
    if (wide == MAP_FAILED)
        return 0;
    uint64_t at = (uint64_t)(uintptr_t)wide;
    uint64_t base = round_up(at, alignment);
    if (base > at)
        munmap(wide, base - at);
    munmap((void *)(uintptr_t)(base + bytes), at + alignment - base);
    return base;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || flags || !bytes || bytes % HOST_PAGE_BYTES || wish % HOST_PAGE_BYTES ||
        (alignment & (alignment - 1)) || bytes > UINT64_MAX / 4 || alignment > UINT64_MAX / 4)
        return CUDA_ERROR_INVALID_VALUE;
    struct range *range = calloc(1, sizeof *range);
    uint64_t unit = alignment > GRANULE_BYTES ? alignment : GRANULE_BYTES;
    uint64_t base = range ? reserve(bytes, unit, wish) : 0;
    if (!base) {
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&driver.lock);
    *range = (struct range){.next = ranges, .base = base, .bytes = bytes};
    ranges = range;
    pthread_mutex_unlock(&driver.lock);
    *out = base;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct range **link = &ranges;
    while (*link && ((*link)->base != address || (*link)->bytes != bytes))
        link = &(*link)->next;
    struct range *range = *link;
    if (!range || memory_in(address, bytes)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else {
        *link = range->next;
        munmap((void *)(uintptr_t)range->base, range->bytes);
        free(range);
    }
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

static CUresult map(uint64_t address, uint64_t bytes, struct physical *physical) {
    const struct range *range = range_find(address);
    if (!physical || bytes > physical->backing->bytes || !range ||
        bytes > range->bytes - (address - range->base) || memory_in(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct memory memory = {.base = address,
                            .bytes = bytes,
                            .kind = MEMORY_VIRTUAL,
                            .device = device_of_card(physical->backing->card),
                            .backing = physical->backing,
                            .physical = physical};
    if (!backing_map(physical->backing, 0, bytes, address) || !memory_add(&memory))
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->mappings++;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (flags || offset || !bytes || bytes % GRANULE_BYTES || address % GRANULE_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    rc = map(address, bytes, physical_find(handle));
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* Whether mappings, each as a whole, fill the range of addresses. */
static bool whole_mappings(uint64_t address, uint64_t bytes) {
    uint64_t end = address + bytes;
    while (address < end) {
        const struct memory *memory = memory_find(address);
        if (!memory || memory->kind != MEMORY_VIRTUAL || memory->base != address)
            return false;
        address += memory->bytes;
    }
    return address == end;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    if (!bytes || bytes > UINT64_MAX - address || !whole_mappings(address, bytes))
        rc = CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = address; rc == CUDA_SUCCESS && at < address + bytes;) {
        struct memory memory = *memory_find(at);
        memory_remove(at);
        mmap((void *)(uintptr_t)at, memory.bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        memory.physical->mappings--;
        physical_settle(memory.physical);
        at += memory.bytes;
    }
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* The place of a location in a mapping's access flags, or an error. */
static CUresult access_slot(const CUmemLocation *location, int *slot) {
    uint32_t card;
    CUresult rc = check_location(location, &card);
    *slot = location->type == CU_MEM_LOCATION_DEVICE ? location->id : SIM_CARDS_MAX;
    return rc;
}

/* A device sees its own memory, the host's, and that of its peers; the host sees its own only. */
static CUresult check_access(const struct memory *memory, const CUmemAccessDesc *wanted) {
    int slot;
    CUresult rc = access_slot(&wanted->location, &slot);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (wanted->flags != 0 && wanted->flags != CU_MEM_ACCESS_READ &&
        wanted->flags != CU_MEM_ACCESS_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    if (slot == SIM_CARDS_MAX)
        return memory->device < 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    bool reachable = memory->device < 0 || devices_are_peers(slot, memory->device);
    return reachable ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult set_access(uint64_t address, uint64_t bytes, const CUmemAccessDesc *wanted,
                           size_t count, bool store) {
    for (uint64_t at = address; at < address + bytes;) {
        struct memory *memory = memory_find(at);
        for (size_t i = 0; i < count; i++) {
            int slot;
            CUresult rc = check_access(memory, &wanted[i]);
            if (rc != CUDA_SUCCESS)
                return rc;
            access_slot(&wanted[i].location, &slot);
            if (store)
                memory->access[slot] = (unsigned)wanted[i].flags;
        }
        at += memory->bytes;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *wanted,
                        size_t count) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!wanted || !count || !bytes || bytes > UINT64_MAX - address)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    rc = CUDA_ERROR_INVALID_VALUE;
    if (whole_mappings(address, bytes))
        rc = set_access(address, bytes, wanted, count, false); /* all or none */
    if (rc == CUDA_SUCCESS)
        rc = set_access(address, bytes, wanted, count, true);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address) {
    int slot;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    rc = access_slot(location, &slot);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct memory *memory = memory_find(address);
    bool mapped = memory && memory->kind == MEMORY_VIRTUAL;
    if (mapped)
        *flags = memory->access[slot];
    pthread_mutex_unlock(&driver.lock);
    return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
