/* Threads take and give by every family at once: never more than the share, and no charge is
 * left. */
#include <pthread.h>
#include <stdatomic.h>

#include "support.h"

enum { THREADS = 16, ROUNDS = 300 };

static CUcontext context;
static _Atomic bool over;

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void use_pool(size_t bytes) {
    CUdeviceptr pointer = 0;
    CUresult result = CUDA(cuMemAllocAsync)(&pointer, bytes, NULL);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    if (result == CUDA_SUCCESS) {
        CHECK(CUDA(cuMemFreeAsync)(pointer, NULL) == CUDA_SUCCESS);
    }
}

static void use_physical(size_t bytes, uint64_t address) {
    CUmemAllocationProp properties = {.type = 1, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUresult result = CUDA(cuMemCreate)(&handle, bytes, &properties, 0);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    if (result == CUDA_SUCCESS) {
        CHECK(CUDA(cuMemMap)(address, bytes, 0, handle, 0) == CUDA_SUCCESS);
        CHECK(CUDA(cuMemRelease)(handle) == CUDA_SUCCESS);
        CHECK(CUDA(cuMemUnmap)(address, bytes) == CUDA_SUCCESS);
    }
}

static void use_array(size_t bytes) {
    CUDA_ARRAY3D_DESCRIPTOR description = {.Width = bytes, .Format = 1, .NumChannels = 1};
    CUarray array;
    CUresult result = CUDA(cuArray3DCreate_v2)(&array, &description);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    if (result == CUDA_SUCCESS) {
        CHECK(CUDA(cuArrayDestroy)(array) == CUDA_SUCCESS);
    }
}

static void *work(void *argument) {
    uint32_t state = (uint32_t)(uintptr_t)argument;
    uint64_t address = UINT64_C(0x7000000000) + (uint64_t)state * UINT64_C(0x100000000);
    ((CUresult(*)(CUcontext))cuda_function("cuCtxSetCurrent"))(context);
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = (next(&state) % 40 + 1) * 2 * MIB;
        switch (next(&state) % 5) {
        case 0:
            use_physical(bytes, address);
            break;
        case 1:
            use_array(bytes);
            break;
        case 2:
            CHECK(CUDA(cuStreamSynchronize)(NULL) == CUDA_SUCCESS);
            break;
        default:
            use_pool(bytes);
        }
    }
    return NULL;
}

static void *watch(void *argument) {
    while (!atomic_load(&over)) {
        CHECK(ledger_sum_bytes() <= SHARE_BYTES);
    }
    return argument;
}

int main(void) {
    files_make();
    context_make(0);
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
    pthread_t threads[THREADS], watcher;
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    atomic_store(&over, true);
    CHECK(pthread_join(watcher, NULL) == 0);
    CHECK(CUDA(cuCtxSynchronize)() == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    return 0;
}
