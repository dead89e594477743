/* For checks of stream-ordered memory: a device's pool, its figures and its memory. */
#ifndef SIMGPU_POOLS_H
#define SIMGPU_POOLS_H

#include "client.h"

/* Ours: the figure of cudaMemPoolAttrReservedMemCurrent after a small request. */
#define CHUNK (32 * MIB)

/* CU_MEMPOOL_ATTR_... */
enum { REUSE_EVENT = 1, REUSE_WAIT = 3, THRESHOLD = 4 };
enum { RESERVED = 5, RESERVED_HIGH = 6, USED = 7, USED_HIGH = 8 };

static inline CUmemoryPool default_pool(void) {
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

static inline uint64_t figure(CUmemoryPool pool, int attribute) {
    uint64_t value;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static inline CUdeviceptr take(size_t bytes, CUstream stream) {
    CUdeviceptr address;
    OK(cuMemAllocAsync(&address, bytes, stream));
    return address;
}

#endif
