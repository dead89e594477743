/* Pools seen by other devices and other processes. */
#include <string.h>

#include "api.h"
#include "state/objects.h"

#define POINTER_MARK 0x3152545053ULL /* "SPTR1" */

/* The data of cuMemPoolExportPointer; 64 bytes in all. */
struct pointer_data {
    uint64_t mark, pool, chunk, offset, bytes;
};

static CUresult check_access(const struct pool *pool, const CUmemAccessDesc *wanted) {
    uint32_t card;
    CUresult rc = check_location(&wanted->location, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (card == SIM_CARDS_MAX || (wanted->flags != 0 && wanted->flags != CU_MEM_ACCESS_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
    bool own = card == pool->card;
    if (own && wanted->flags == 0)
        return CUDA_ERROR_INVALID_VALUE; /* its own device always sees it */
    if (pool->card != SIM_CARDS_MAX && !devices_are_peers(wanted->location.id, pool->device))
        return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *wanted, size_t count) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!wanted && count)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct pool *pool = pool_find(handle);
    rc = pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; rc == CUDA_SUCCESS && i < count; i++)
        rc = check_access(pool, &wanted[i]);
    for (size_t i = 0; rc == CUDA_SUCCESS && i < count; i++)
        pool->access[wanted[i].location.id] = (unsigned)wanted[i].flags;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool handle, CUmemLocation *location) {
    uint32_t card;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    rc = check_location(location, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct pool *pool = pool_find(handle);
    if (pool)
        *flags = (int)pool->access[card == SIM_CARDS_MAX ? SIM_CARDS_MAX : location->id];
    pthread_mutex_unlock(&driver.lock);
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int export_pool(struct pool *pool) {
    if (!pool->identity)
        pool->identity = backing_make(pool->card, 0, true);
    return pool->identity ? sim_object_open(pool->identity->object, true) : -1;
}

CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool handle, int type,
                                          unsigned long long flags) {
    CUresult rc = driver_ready();
    int fd = -1;
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct pool *pool = pool_find(handle);
    bool allowed = pool && out && !flags && type == CU_MEM_HANDLE_POSIX_FD && !pool->imported &&
                   (pool->handle_types & type);
    if (allowed)
        fd = export_pool(pool);
    pthread_mutex_unlock(&driver.lock);
    if (!allowed)
        return CUDA_ERROR_INVALID_VALUE;
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

static CUresult import_pool(uint64_t object, CUmemoryPool *out) {
    struct backing *identity = backing_import(object);
    bool visible =
        identity && (identity->card == SIM_CARDS_MAX || device_of_card(identity->card) >= 0);
    struct pool *pool = NULL;
    if (visible && identity->bytes == 0)
        pool = pool_import(identity);
    else if (identity)
        backing_release(identity);
    if (pool)
        *out = pool;
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *os_handle, int type,
                                            unsigned long long flags) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    uint64_t object = sim_object_of_fd(driver.state, (int)(intptr_t)os_handle);
    if (!out || flags || type != CU_MEM_HANDLE_POSIX_FD || !object)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    rc = import_pool(object, out);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr address) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    const struct memory *memory = memory_find(address);
    const struct chunk *chunk = memory && memory->kind == MEMORY_POOL ? memory->block->chunk : NULL;
    bool allowed = out && chunk && chunk->pool->identity;
    if (allowed) {
        struct pointer_data data = {POINTER_MARK, chunk->pool->identity->object,
                                    chunk->backing->object, memory->base - chunk->base,
                                    memory->bytes};
        memset(out, 0, sizeof *out);
        memcpy(out, &data, sizeof data);
    }
    pthread_mutex_unlock(&driver.lock);
    return allowed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult import_pointer(const struct pool *pool, const struct pointer_data *data,
                               uint64_t *address) {
    struct memory memory = {.kind = MEMORY_SHARED, .device = pool->device};
    struct backing *backing = backing_import(data->chunk);
    if (!backing)
        return CUDA_ERROR_INVALID_VALUE;
    if (data->offset <= backing->bytes && data->bytes <= backing->bytes - data->offset)
        *address = backing_show(backing, data->offset, data->bytes, memory);
    if (*address)
        return CUDA_SUCCESS;
    backing_release(backing);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool handle,
                                CUmemPoolPtrExportData *shared) {
    struct pointer_data data;
    uint64_t address = 0;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !shared)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&data, shared, sizeof data);
    pthread_mutex_lock(&driver.lock);
    const struct pool *pool = pool_find(handle);
    if (!pool || !pool->imported || data.mark != POINTER_MARK ||
        data.pool != pool->identity->object)
        rc = CUDA_ERROR_INVALID_VALUE;
    else
        rc = import_pointer(pool, &data, &address);
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS)
        *out = address;
    return rc;
}
