/* Many threads of one process take and give back at the same time: no memory is lost, and none
 * counted twice. The other contracts give the size of each kind. */
#include <pthread.h>
#include <string.h>

#include "checks.h"

#define GRANULE (2 * MIB)
#define THREADS 8
#define ROUNDS 50

static CUcontext shared_context;

static void plain(unsigned round) {
    CUdeviceptr address;
    OK(cuMemAlloc_v2(&address, 1000UL << round % 14));
    OK(cuMemFree_v2(address));
}

static void pooled(unsigned round) {
    CUdeviceptr address;
    OK(cuMemAllocAsync(&address, 1000UL << round % 14, CU_STREAM_PER_THREAD));
    OK(cuMemsetD8Async(address, 1, 100, CU_STREAM_PER_THREAD));
    OK(cuMemFreeAsync(address, CU_STREAM_PER_THREAD));
    if (round % 7 == 0)
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

static void virtual(unsigned round) {
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_PINNED,
                                      .requestedHandleTypes = round % 2,
                                      .location = {CU_MEM_LOCATION_DEVICE, 0}};
    CUmemAccessDesc wanted = {properties.location, CU_MEM_ACCESS_READWRITE};
    OK(cuMemCreate(&handle, GRANULE, &properties, 0));
    OK(cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
    OK(cuMemMap(address, GRANULE, 0, handle, 0));
    OK(cuMemSetAccess(address, GRANULE, &wanted, 1));
    OK(cuMemRelease(handle));
    OK(cuMemsetD8_v2(address, (unsigned char)round, GRANULE));
    OK(cuMemUnmap(address, GRANULE));
    OK(cuMemAddressFree(address, GRANULE));
}

static void array(unsigned round) {
    CUmipmappedArray mipmap;
    CUDA_ARRAY3D_DESCRIPTOR d = {256, 256, 0, 0x20, 1, 0};
    OK(cuMipmappedArrayCreate(&mipmap, &d, 1 + round % 4));
    OK(cuMipmappedArrayDestroy(mipmap));
}

static void exported(unsigned round) {
    CUdeviceptr address;
    CUipcMemHandle handle;
    OK(cuMemAlloc_v2(&address, 100 + round));
    OK(cuIpcGetMemHandle(&handle, address));
    OK(cuMemFree_v2(address));
}

static void *work(void *number) {
    static void (*const kinds[])(unsigned) = {plain, pooled, virtual, array, exported};
    unsigned first = *(unsigned *)number;
    OK(cuCtxSetCurrent(shared_context));
    for (unsigned round = 0; round < ROUNDS; round++)
        kinds[(first + round) % (sizeof kinds / sizeof kinds[0])](round);
    return NULL;
}

static void threads_lose_no_byte(void) {
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    shared_context = new_context(0);
    size_t before = free_bytes();
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        EXPECT(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    OK(cuCtxSynchronize());
    EXPECT(free_bytes() == before);
}

static const struct check checks[] = {
    CHECK(threads_lose_no_byte),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
