/* Stream-ordered memory. Rules: the documentation of the calls in CUDA 12.2, and the programming
 * guide's chapter "Stream Ordered Memory Allocator". A rule of ours says so. */
#include <string.h>

#include "checks.h"
#include "pools.h"

static void set(CUmemoryPool pool, int attribute, uint64_t value) {
    OK(cuMemPoolSetAttribute(pool, attribute, &value));
}

static CUmemPoolProps properties(int handle_types) {
    return (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_PINNED,
                            .handleTypes = handle_types,
                            .location = {CU_MEM_LOCATION_DEVICE, 0}};
}

static void a_pool_reserves_chunks_and_counts_what_is_used(void) {
    new_context(0);
    size_t before = free_bytes();
    CUmemoryPool pool = default_pool();
    EXPECT(figure(pool, RESERVED) == 0);
    CUdeviceptr first = take(1000, NULL), second = take(10 * MIB, NULL);
    EXPECT(first % 512 == 0 && second % 512 == 0);
    EXPECT(figure(pool, USED) == 10 * MIB + 1024);
    EXPECT(figure(pool, RESERVED) == CHUNK && before - free_bytes() == CHUNK);
    take(CHUNK, NULL);
    EXPECT(figure(pool, RESERVED) == 2 * CHUNK && before - free_bytes() == 2 * CHUNK);
    take(CHUNK + 1, NULL);
    EXPECT(figure(pool, RESERVED) == 4 * CHUNK);
}

/* Release threshold 0 by default: "on the next call to stream, event or context synchronize". */
static void freed_memory_goes_back_at_the_next_synchronisation(void) {
    CUevent event;
    CUmemoryPool pool;
    new_context(0);
    size_t before = free_bytes();
    pool = default_pool();
    OK(cuEventCreate(&event, 0));
    for (int way = 0; way < 3; way++) {
        OK(cuMemFreeAsync(take(40 * MIB, NULL), NULL));
        EXPECT(figure(pool, USED) == 0 && figure(pool, RESERVED) == 2 * CHUNK);
        EXPECT(before - free_bytes() == 2 * CHUNK);
        OK(cuEventRecord(event, NULL));
        OK(way == 0   ? cuStreamSynchronize(NULL)
           : way == 1 ? cuCtxSynchronize()
                      : cuEventSynchronize(event));
        EXPECT(figure(pool, RESERVED) == 0 && free_bytes() == before);
    }
}

static void a_threshold_keeps_memory_over_synchronisations(void) {
    new_context(0);
    size_t before = free_bytes();
    CUmemoryPool pool = default_pool();
    set(pool, THRESHOLD, UINT64_MAX);
    OK(cuMemFreeAsync(take(40 * MIB, NULL), NULL));
    OK(cuMemFreeAsync(take(40 * MIB, NULL), NULL)); /* the same memory: the stream is the same */
    OK(cuCtxSynchronize());
    EXPECT(figure(pool, RESERVED) == 2 * CHUNK && before - free_bytes() == 2 * CHUNK);
    EXPECT(figure(pool, THRESHOLD) == UINT64_MAX);
    set(pool, THRESHOLD, CHUNK); /* of one piece of two chunks nothing can be kept alone */
    OK(cuCtxSynchronize());
    EXPECT(figure(pool, RESERVED) == 2 * CHUNK);
    set(pool, THRESHOLD, 0);
    OK(cuCtxSynchronize());
    EXPECT(free_bytes() == before);
}

/* "The pool will be guaranteed to have at least minBytesToKeep bytes reserved." */
static void trimming_keeps_what_it_is_told_and_what_is_used(void) {
    new_context(0);
    CUmemoryPool pool = default_pool();
    set(pool, THRESHOLD, UINT64_MAX);
    CUdeviceptr kept = take(CHUNK, NULL), first = take(CHUNK, NULL), second = take(CHUNK, NULL);
    OK(cuMemFreeAsync(first, NULL));
    OK(cuMemFreeAsync(second, NULL));
    OK(cuCtxSynchronize());
    EXPECT(figure(pool, RESERVED) == 3 * CHUNK);
    OK(cuMemPoolTrimTo(pool, 2 * CHUNK));
    EXPECT(figure(pool, RESERVED) == 2 * CHUNK);
    OK(cuMemPoolTrimTo(pool, CHUNK + 1));
    EXPECT(figure(pool, RESERVED) == 2 * CHUNK);
    OK(cuMemPoolTrimTo(pool, 0));
    EXPECT(figure(pool, RESERVED) == CHUNK);
    OK(cuMemFreeAsync(kept, NULL));
    OK(cuMemPoolTrimTo(pool, 0));
    EXPECT(figure(pool, RESERVED) == 0);
    EXPECT_RC(cuMemPoolTrimTo(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void marks_are_reset_to_what_is_there(void) {
    new_context(0);
    CUmemoryPool pool = default_pool();
    CUdeviceptr address = take(20 * MIB, NULL);
    uint64_t zero = 0, one = 1;
    take(MIB, NULL);
    OK(cuMemFreeAsync(address, NULL));
    EXPECT(figure(pool, USED_HIGH) == 21 * MIB && figure(pool, RESERVED_HIGH) == CHUNK);
    EXPECT_RC(cuMemPoolSetAttribute(pool, USED_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemPoolSetAttribute(pool, USED, &zero), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemPoolSetAttribute(pool, RESERVED, &zero), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemPoolSetAttribute(pool, 9, &zero), CUDA_ERROR_INVALID_VALUE);
    set(pool, USED_HIGH, 0);
    EXPECT(figure(pool, USED_HIGH) == MIB);
}

static void a_devices_pool_can_be_chosen(void) {
    CUmemoryPool pool, now;
    CUmemPoolProps wanted = properties(0);
    new_context(0);
    OK(cuMemPoolCreate(&pool, &wanted));
    OK(cuDeviceGetMemPool(&now, 0));
    EXPECT(now == default_pool());
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuDeviceGetMemPool(&now, 0));
    EXPECT(now == pool);
    take(MIB, NULL);
    EXPECT(figure(pool, USED) == MIB && figure(default_pool(), USED) == 0);
    EXPECT_RC(cuDeviceSetMemPool(1, pool), CUDA_ERROR_INVALID_VALUE); /* must be local */
    OK(cuMemPoolDestroy(pool));
    OK(cuDeviceGetMemPool(&now, 0));
    EXPECT(now == default_pool());
    EXPECT_RC(cuMemPoolDestroy(now), CUDA_ERROR_INVALID_VALUE);
}

/* "Resources … will be released automatically once there are no more outstanding allocations." */
static void a_destroyed_pool_lives_with_its_last_allocation(void) {
    CUmemoryPool pool;
    CUdeviceptr address;
    CUmemPoolProps wanted = properties(0);
    new_context(0);
    size_t before = free_bytes();
    OK(cuMemPoolCreate(&pool, &wanted));
    OK(cuMemAllocFromPoolAsync(&address, MIB, pool, NULL));
    OK(cuMemPoolDestroy(pool));
    EXPECT_RC(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(before - free_bytes() == CHUNK);
    OK(cuMemFreeAsync(address, NULL));
    OK(cuCtxSynchronize());
    EXPECT(free_bytes() == before);
}

static void a_pool_has_a_largest_size(void) {
    CUmemoryPool pool;
    CUdeviceptr address;
    CUmemPoolProps wanted = properties(0);
    new_context(0);
    wanted.maxSize = 4 * MIB;
    OK(cuMemPoolCreate(&pool, &wanted));
    EXPECT_RC(cuMemAllocFromPoolAsync(&address, 5 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAllocFromPoolAsync(&address, 3 * MIB, pool, NULL));
    EXPECT(figure(pool, RESERVED) == 4 * MIB);
}

static void bad_pools_are_refused(void) {
    CUmemoryPool pool;
    CUdeviceptr address;
    CUmemPoolProps wanted = properties(2); /* a handle type of Windows */
    new_context(0);
    EXPECT_RC(cuMemPoolCreate(&pool, &wanted), CUDA_ERROR_NOT_SUPPORTED);
    wanted = properties(0);
    wanted.location.id = 7;
    EXPECT_RC(cuMemPoolCreate(&pool, &wanted), CUDA_ERROR_INVALID_DEVICE);
    wanted.allocType = 0;
    EXPECT_RC(cuMemPoolCreate(&pool, &wanted), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAllocFromPoolAsync(&address, MIB, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAllocAsync(&address, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAllocAsync(&address, MIB, (CUstream)&address), CUDA_ERROR_INVALID_HANDLE);
    address = take(MIB, NULL);
    EXPECT_RC(cuMemFreeAsync(address + 512, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(address, NULL));
    EXPECT_RC(cuMemFreeAsync(address, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* Both ways of freeing take both kinds of memory (programming guide). */
static void either_free_takes_either_memory(void) {
    CUdeviceptr address;
    new_context(0);
    size_t before = free_bytes();
    OK(cuMemFree_v2(take(MIB, NULL)));
    EXPECT(figure(default_pool(), USED) == 0);
    OK(cuMemAlloc_v2(&address, 4 * MIB));
    OK(cuMemFreeAsync(address, NULL));
    OK(cuCtxSynchronize());
    EXPECT(free_bytes() == before);
}

static void a_pool_on_the_host_takes_nothing_of_the_card(void) {
    CUmemoryPool pool;
    CUdeviceptr address;
    CUmemPoolProps wanted = properties(0);
    new_context(0);
    size_t before = free_bytes();
    wanted.location = (CUmemLocation){CU_MEM_LOCATION_HOST_NUMA, 0};
    OK(cuMemPoolCreate(&pool, &wanted));
    OK(cuMemAllocFromPoolAsync(&address, 100 * MIB, pool, NULL));
    EXPECT(free_bytes() == before && figure(pool, USED) == 100 * MIB);
}

/* Ours: pools belong to the process, as what has no context; contents are kept. */
static void pool_memory_outlives_its_context(void) {
    char text[8] = "kept", back[8] = "";
    CUcontext context = new_context(0);
    CUdeviceptr address = take(MIB, NULL);
    OK(cuMemcpyHtoD_v2(address, text, sizeof text));
    OK(cuCtxDestroy_v2(context));
    new_context(0);
    OK(cuMemcpyDtoH_v2(back, address, sizeof back));
    EXPECT(strcmp(back, "kept") == 0);
}

static void a_reset_frees_what_pools_gave_out_and_a_release_does_not(void) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    size_t before = free_bytes();
    CUdeviceptr address = take(MIB, NULL);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    EXPECT(before - free_bytes() == CHUNK);
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    EXPECT(free_bytes() == before);
    EXPECT_RC(cuMemFreeAsync(address, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void access_from_peers_is_given_and_asked(void) {
    CUmemoryPool pool = (new_context(0), default_pool());
    CUmemLocation own = {CU_MEM_LOCATION_DEVICE, 0}, peer = {CU_MEM_LOCATION_DEVICE, 1};
    CUmemAccessDesc wanted = {peer, CU_MEM_ACCESS_READWRITE}, none = {own, 0};
    int flags;
    OK(cuMemPoolGetAccess(&flags, pool, &own));
    EXPECT(flags == CU_MEM_ACCESS_READWRITE);
    OK(cuMemPoolGetAccess(&flags, pool, &peer));
    EXPECT(flags == 0);
    OK(cuMemPoolSetAccess(pool, &wanted, 1));
    OK(cuMemPoolGetAccess(&flags, pool, &peer));
    EXPECT(flags == CU_MEM_ACCESS_READWRITE);
    EXPECT_RC(cuMemPoolSetAccess(pool, &none, 1), CUDA_ERROR_INVALID_VALUE);
}

static const struct check checks[] = {
    CHECK(a_pool_reserves_chunks_and_counts_what_is_used),
    CHECK(freed_memory_goes_back_at_the_next_synchronisation),
    CHECK(a_threshold_keeps_memory_over_synchronisations),
    CHECK(trimming_keeps_what_it_is_told_and_what_is_used),
    CHECK(marks_are_reset_to_what_is_there),
    CHECK(a_devices_pool_can_be_chosen),
    CHECK(a_destroyed_pool_lives_with_its_last_allocation),
    CHECK(a_pool_has_a_largest_size),
    CHECK(bad_pools_are_refused),
    CHECK(either_free_takes_either_memory),
    CHECK(a_pool_on_the_host_takes_nothing_of_the_card),
    CHECK(pool_memory_outlives_its_context),
    CHECK(a_reset_frees_what_pools_gave_out_and_a_release_does_not),
    CHECK(access_from_peers_is_given_and_asked),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
