/* Attributes of a pointer. */
#include <string.h>

#include "api.h"

/* CUpointer_attribute. */
enum {
    CONTEXT = 1,
    MEMORY_TYPE = 2,
    DEVICE_POINTER = 3,
    HOST_POINTER = 4,
    P2P_TOKENS = 5,
    SYNC_MEMOPS = 6,
    BUFFER_ID = 7,
    IS_MANAGED = 8,
    DEVICE_ORDINAL = 9,
    IS_LEGACY_IPC_CAPABLE = 10,
    RANGE_START = 11,
    RANGE_SIZE = 12,
    MAPPED = 13,
    ALLOWED_HANDLE_TYPES = 14,
    IS_RDMA_CAPABLE = 15,
    ACCESS_FLAGS = 16,
    MEMPOOL_HANDLE = 17,
    MAPPING_SIZE = 18,
    MAPPING_BASE = 19,
    MEMORY_BLOCK_ID = 20
};

/* An attribute's value, of the size that the caller's place has. */
struct value {
    uint64_t bits;
    size_t size;
};

static struct value sized(size_t size, uint64_t bits) { return (struct value){bits, size}; }

static bool on_host(const struct memory *memory) {
    return memory->kind >= MEMORY_HOST || memory->device < 0;
}

static unsigned access_flags(const struct memory *memory) {
    struct context *context;
    if (memory->kind != MEMORY_VIRTUAL)
        return CU_MEM_ACCESS_READWRITE;
    if (context_current(&context) != CUDA_SUCCESS)
        return 0;
    return memory->access[context->device];
}

static unsigned handle_types(const struct memory *memory) {
    if (memory->kind == MEMORY_VIRTUAL)
        return (unsigned)memory->physical->properties.requestedHandleTypes;
    return 0;
}

static struct value range_value(const struct memory *memory, CUdeviceptr address, bool start) {
    uint64_t base = memory->base, bytes = memory->bytes;
    if (memory->kind == MEMORY_VIRTUAL)
        reservation_find(address, &base, &bytes);
    return start ? sized(sizeof(CUdeviceptr), base) : sized(sizeof(size_t), bytes);
}

/* The pool of an allocation; NULL for all other memory. */
static uint64_t pool_value(const struct memory *memory) {
    return memory->kind == MEMORY_POOL ? (uintptr_t)memory->block->chunk->pool : 0;
}

/* The memory's place and its owner; size 0: not one of these. */
static struct value place_value(const struct memory *memory, int attribute, CUdeviceptr address) {
    switch (attribute) {
    case CONTEXT: /* none: memory of cuMemCreate and of pools belongs to no context */
        return sized(sizeof(CUcontext), (uintptr_t)memory->context);
    case MEMORY_TYPE: /* 1 host, 2 device */
        return sized(sizeof(unsigned), on_host(memory) ? 1 : 2);
    case DEVICE_POINTER:
        return sized(sizeof(CUdeviceptr), address);
    case HOST_POINTER:
        return sized(sizeof(void *), address);
    case DEVICE_ORDINAL:
        return sized(sizeof(int), (unsigned)(memory->device < 0 ? 0 : memory->device));
    case RANGE_START:
    case RANGE_SIZE:
        return range_value(memory, address, attribute == RANGE_START);
    case MAPPING_SIZE:
        return sized(sizeof(size_t), memory->bytes);
    case MAPPING_BASE:
        return sized(sizeof(CUdeviceptr), memory->base);
    case MEMPOOL_HANDLE:
        return sized(sizeof(CUmemoryPool), pool_value(memory));
    default:
        return (struct value){0};
    }
}

/* The memory's kind and its permitted uses; size 0: not one of these. */
static struct value kind_value(const struct memory *memory, int attribute) {
    switch (attribute) {
    case SYNC_MEMOPS:
        return sized(sizeof(unsigned), memory->sync_operations);
    case BUFFER_ID:
    case MEMORY_BLOCK_ID:
        return sized(sizeof(uint64_t), memory->id);
    case IS_MANAGED:
        return sized(sizeof(unsigned), memory->kind == MEMORY_MANAGED);
    case IS_LEGACY_IPC_CAPABLE:
        return sized(sizeof(unsigned), memory->kind == MEMORY_DEVICE);
    case MAPPED:
        return sized(sizeof(int), 1);
    case ALLOWED_HANDLE_TYPES:
        return sized(sizeof(uint64_t), handle_types(memory));
    case IS_RDMA_CAPABLE:
        return sized(sizeof(unsigned), 0);
    case ACCESS_FLAGS:
        return sized(sizeof(unsigned), access_flags(memory));
    default:
        return (struct value){0};
    }
}

static CUresult look(const struct memory *memory, int attribute, CUdeviceptr address,
                     struct value *value) {
    *value = place_value(memory, attribute, address);
    if (!value->size)
        *value = kind_value(memory, attribute);
    if (!value->size) /* the tokens of nv-p2p.h are for a kernel module */
        return attribute == P2P_TOKENS ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (attribute == HOST_POINTER && !on_host(memory) && memory->kind != MEMORY_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* A reserved address without a mapping has few attributes. */
static CUresult look_reserved(int attribute, CUdeviceptr address, struct value *value) {
    uint64_t base, bytes;
    if (!reservation_find(address, &base, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == RANGE_START)
        *value = sized(sizeof(CUdeviceptr), base);
    else if (attribute == RANGE_SIZE)
        *value = sized(sizeof(size_t), bytes);
    else if (attribute == MAPPED)
        *value = sized(sizeof(int), 0);
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult find_value(int attribute, CUdeviceptr address, struct value *value) {
    pthread_mutex_lock(&driver.lock);
    const struct memory *memory = memory_find(address);
    CUresult rc =
        memory ? look(memory, attribute, address, value) : look_reserved(attribute, address, value);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuPointerGetAttribute(void *out, int attribute, CUdeviceptr address) {
    struct value value = {0};
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    rc = find_value(attribute, address, &value);
    if (rc == CUDA_SUCCESS)
        memcpy(out, &value.bits, value.size); /* little-endian */
    return rc;
}

/* Sizes of the places for missing values. */
static size_t size_of(int attribute) {
    static const struct memory none = {.kind = MEMORY_HOST};
    struct value value = {0};
    look(&none, attribute, 0, &value);
    return value.size;
}

/* An unknown pointer gives zeros and no error. */
CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **out, CUdeviceptr address) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!count || !attributes || !out)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (!size_of(attributes[i]) || !out[i])
            return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        struct value value = {0};
        if (find_value(attributes[i], address, &value) != CUDA_SUCCESS)
            value.bits = 0;
        memcpy(out[i], &value.bits, size_of(attributes[i]));
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr address) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!value || attribute != SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct memory *memory = memory_find(address);
    bool ours = memory && memory->kind < MEMORY_HOST;
    if (ours)
        memory->sync_operations = *(const unsigned *)value != 0;
    pthread_mutex_unlock(&driver.lock);
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
