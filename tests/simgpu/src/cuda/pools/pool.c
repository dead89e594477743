/* Memory pools: made, chosen, asked, destroyed. They belong to the process, not to a context. */
#include <stdlib.h>

#include "api.h"

enum {
    ATTR_REUSE_FIRST = 1,
    ATTR_REUSE_LAST = 3,
    ATTR_RELEASE_THRESHOLD = 4,
    ATTR_RESERVED = 5,
    ATTR_RESERVED_HIGH = 6,
    ATTR_USED = 7,
    ATTR_USED_HIGH = 8
};

static struct pool *pools; /* all, also those that wait for their last block */
static struct pool *defaults[SIM_CARDS_MAX], *current[SIM_CARDS_MAX];

static struct pool *new_pool(CUdevice device, uint32_t card) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    *pool = (struct pool){.next = pools, .device = device, .card = card, .reuse = {1, 1, 1}};
    pool->access[card == SIM_CARDS_MAX ? SIM_CARDS_MAX : device] = CU_MEM_ACCESS_READWRITE;
    pools = pool;
    return pool;
}

struct pool *pool_default(CUdevice device) {
    if (!defaults[device]) {
        defaults[device] = new_pool(device, driver.cards[device]);
        if (defaults[device])
            defaults[device]->is_default = true;
    }
    return defaults[device];
}

struct pool *pool_current(CUdevice device) {
    return current[device] ? current[device] : pool_default(device);
}

struct pool *pool_find(CUmemoryPool handle) {
    for (struct pool *at = pools; at; at = at->next)
        if (at == handle)
            return at->destroyed ? NULL : at;
    return NULL;
}

void pool_settle(struct pool *pool) {
    struct pool **link = &pools;
    if (!pool->destroyed)
        return;
    pool_trim(pool, 0);
    if (pool->chunks)
        return;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    if (pool->identity)
        backing_release(pool->identity);
    free(pool);
}

/* Frees all allocations of the pool at once. */
static void take_back(struct pool *pool) {
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct block *block = chunk->blocks; block; block = block->next)
            if (block->used) {
                memory_remove(block->base);
                block_give(block, NULL);
            }
    pool_trim(pool, 0);
}

void pools_reset(CUdevice device) {
    struct pool *next;
    for (struct pool *pool = pools; pool; pool = next) {
        next = pool->next;
        if (pool->device == device && pool->card != SIM_CARDS_MAX && !pool->imported)
            take_back(pool);
        pool_settle(pool);
    }
}

void pools_synchronized(uint32_t card) {
    struct pool *next;
    pthread_mutex_lock(&driver.lock);
    for (struct pool *pool = pools; pool; pool = next) {
        next = pool->next;
        if (pool->card == card && pool->reserved_bytes > pool->threshold_bytes)
            pool_trim(pool, pool->threshold_bytes);
        pool_settle(pool);
    }
    pthread_mutex_unlock(&driver.lock);
}

static CUresult check_properties(const CUmemPoolProps *properties, uint32_t *card) {
    if (properties->allocType != CU_MEM_ALLOCATION_PINNED || properties->win32SecurityAttributes)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->handleTypes & ~CU_MEM_HANDLE_POSIX_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    return check_location(&properties->location, card);
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties) {
    uint32_t card;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !properties)
        return CUDA_ERROR_INVALID_VALUE;
    rc = check_properties(properties, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct pool *pool = new_pool(properties->location.id, card);
    if (pool) {
        pool->handle_types = properties->handleTypes;
        pool->maximum_bytes = properties->maxSize;
        *out = pool;
    }
    pthread_mutex_unlock(&driver.lock);
    return pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct pool *pool = pool_find(handle);
    if (!pool || pool->is_default) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else {
        for (int device = 0; device < SIM_CARDS_MAX; device++)
            if (current[device] == pool)
                current[device] = NULL;
        pool->destroyed = true;
        pool_settle(pool);
    }
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

static CUresult pool_of_device(CUmemoryPool *out, CUdevice device,
                               struct pool *(*choose)(CUdevice device)) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc == CUDA_SUCCESS && !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct pool *pool = choose(device);
    pthread_mutex_unlock(&driver.lock);
    *out = pool;
    return pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) {
    return pool_of_device(out, device, pool_default);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device) {
    return pool_of_device(out, device, pool_current);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct pool *pool = pool_find(handle);
    if (pool && !pool->imported && pool->card == card)
        current[device] = pool;
    else
        rc = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* CUDA 13 asks by location. Of devices' pinned memory here: the host has no current pool. */
static CUresult check_choice(const CUmemLocation *location, int type) {
    if (!location || type != CU_MEM_ALLOCATION_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    return location->type == CU_MEM_LOCATION_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, int type) {
    CUresult rc = check_choice(location, type);
    return rc == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(out, location->id) : rc;
}

CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, int type) {
    CUresult rc = check_choice(location, type);
    return rc == CUDA_SUCCESS ? cuDeviceGetMemPool(out, location->id) : rc;
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool handle) {
    CUresult rc = check_choice(location, type);
    return rc == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, handle) : rc;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct pool *pool = pool_find(handle);
    if (pool)
        pool_trim(pool, keep_bytes);
    pthread_mutex_unlock(&driver.lock);
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void get_attribute(const struct pool *pool, int attribute, void *value) {
    const uint64_t figures[] = {[ATTR_RELEASE_THRESHOLD] = pool->threshold_bytes,
                                [ATTR_RESERVED] = pool->reserved_bytes,
                                [ATTR_RESERVED_HIGH] = pool->reserved_high_bytes,
                                [ATTR_USED] = pool->used_bytes,
                                [ATTR_USED_HIGH] = pool->used_high_bytes};
    if (attribute <= ATTR_REUSE_LAST)
        *(int *)value = pool->reuse[attribute - ATTR_REUSE_FIRST];
    else
        *(uint64_t *)value = figures[attribute];
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, int attribute, void *value) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!value || attribute < ATTR_REUSE_FIRST || attribute > ATTR_USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    const struct pool *pool = pool_find(handle);
    if (pool)
        get_attribute(pool, attribute, value);
    pthread_mutex_unlock(&driver.lock);
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Only high marks can be set, and only to 0: they become the present figure. */
static CUresult set_attribute(struct pool *pool, int attribute, const void *value) {
    if (attribute <= ATTR_REUSE_LAST) {
        pool->reuse[attribute - ATTR_REUSE_FIRST] = *(const int *)value != 0;
        return CUDA_SUCCESS;
    }
    if (attribute == ATTR_RELEASE_THRESHOLD) {
        pool->threshold_bytes = *(const uint64_t *)value;
        return CUDA_SUCCESS;
    }
    if (attribute == ATTR_RESERVED || attribute == ATTR_USED || *(const uint64_t *)value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == ATTR_RESERVED_HIGH)
        pool->reserved_high_bytes = pool->reserved_bytes;
    else
        pool->used_high_bytes = pool->used_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, int attribute, void *value) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!value || attribute < ATTR_REUSE_FIRST || attribute > ATTR_USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct pool *pool = pool_find(handle);
    rc = pool ? set_attribute(pool, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* An imported pool: pointers come from another process. Takes the reference over. */
struct pool *pool_import(struct backing *identity) {
    struct pool *pool = new_pool(device_of_card(identity->card), identity->card);
    if (pool) {
        pool->imported = true;
        pool->identity = identity;
    }
    return pool;
}
