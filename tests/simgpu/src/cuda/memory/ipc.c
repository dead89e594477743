/* Legacy IPC: an allocation of cuMemAlloc, opened in another process of this machine.
 *
 * The block of an allocation is shared, as the programming guide warns: for a small request that
 * is its whole granule. Rules of opening: the documentation of cuIpcOpenMemHandle and, for the
 * errors, the tests that HIP and UCX run on NVIDIA's driver. */
#include <string.h>

#include "api.h"
#include "state/objects.h"

#define HANDLE_MARK 0x3143504953ULL /* "SIPC1" */

struct handle_data {
    uint64_t mark, object, offset;
    uint64_t client, pid, token; /* of the process that made it */
};

static struct handle_data own_handle(void) {
    return (struct handle_data){.mark = HANDLE_MARK,
                                .client = (uint64_t)driver.client,
                                .pid = (uint64_t)driver.pid,
                                .token = driver.state->clients[driver.client].token};
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct memory *memory = memory_find(address);
    struct handle_data data = own_handle();
    rc = CUDA_ERROR_INVALID_VALUE;
    if (out && memory && memory->base == address && memory->kind == MEMORY_DEVICE) {
        uint64_t base, bytes;
        data.object = heap_share(memory, &base, &bytes);
        data.offset = address - base;
        rc = data.object ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS) {
        memset(out, 0, sizeof *out);
        memcpy(out, &data, sizeof data);
    }
    return rc;
}

static bool is_own(const struct handle_data *data) {
    struct handle_data own = own_handle();
    return data->client == own.client && data->pid == own.pid && data->token == own.token;
}

/* This process's opening of an object, or NULL. */
static struct memory *opened(uint64_t object) {
    for (struct memory *at = memory_in(0, UINT64_MAX); at; at = memory_after(at))
        if (at->kind == MEMORY_SHARED && at->opens && at->backing->object == object)
            return at;
    return NULL;
}

static CUresult open_object(struct context *context, uint64_t object, uint64_t *base) {
    struct backing *backing = backing_import(object);
    if (!backing)
        return CUDA_ERROR_INVALID_HANDLE; /* freed, or its process is gone */
    CUdevice owner = backing->card == SIM_CARDS_MAX ? -1 : device_of_card(backing->card);
    bool reachable = owner >= 0 && devices_are_peers(context->device, owner);
    struct memory memory = {.kind = MEMORY_SHARED, .device = owner, .context = context, .opens = 1};
    if (reachable)
        *base = backing_show(backing, 0, backing->bytes, memory);
    if (!reachable || !*base)
        backing_release(backing);
    if (!reachable)
        return owner < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return *base ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
}

/* counted: a second opening in the same context counts; before CUDA 11 it was refused. */
static CUresult open_handle(CUdeviceptr *out, const CUipcMemHandle *handle, unsigned flags,
                            bool counted) {
    struct context *context;
    struct handle_data data;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    memcpy(&data, handle, sizeof data);
    if (!out || flags != CU_IPC_LAZY_PEER_ACCESS || data.mark != HANDLE_MARK)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_own(&data))
        return CUDA_ERROR_INVALID_CONTEXT;
    uint64_t base = 0;
    pthread_mutex_lock(&driver.lock);
    struct memory *memory = opened(data.object);
    if (!memory)
        rc = open_object(context, data.object, &base);
    else if (memory->context != context)
        rc = CUDA_ERROR_INVALID_HANDLE;
    else if (!counted)
        rc = CUDA_ERROR_ALREADY_MAPPED;
    else
        memory->opens++, base = memory->base;
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS)
        *out = base + data.offset;
    return rc;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
    return open_handle(out, &handle, flags, true);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
    return open_handle(out, &handle, flags, false);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct memory *memory = memory_find(address);
    if (!memory || memory->kind != MEMORY_SHARED || !memory->opens)
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (--memory->opens == 0)
        backing_hide(*memory);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}
