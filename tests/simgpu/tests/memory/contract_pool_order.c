/* The memory that a stream-ordered allocation gets. Rules: the documentation of the pools'
 * attributes in CUDA 12.2, and the programming guide's chapter "Stream Ordered Memory
 * Allocator". */
#include "checks.h"
#include "pools.h"

/* A free is work of its stream: until the stream comes to it, others don't get the memory. */
static void a_free_waits_for_the_work_before_it(void) {
    CUstream busy, other;
    new_context(0);
    CUmemoryPool pool = default_pool();
    OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUdeviceptr first = take(CHUNK, busy);
    launch(kernel("long_300ms"), busy);
    OK(cuMemFreeAsync(first, busy));
    EXPECT(figure(pool, USED) == 0);
    OK(cuMemPoolTrimTo(pool, 0)); /* "whose completion has not been observed" */
    EXPECT(figure(pool, RESERVED) == CHUNK);
    CUdeviceptr second = take(CHUNK, other);
    EXPECT(second != first && figure(pool, RESERVED) == 2 * CHUNK);
    EXPECT_RC(cuStreamQuery(other), CUDA_SUCCESS); /* and nothing was made to wait */
    EXPECT(take(CHUNK, busy) == first);            /* in the same stream it is in order */
}

static void an_event_makes_memory_of_another_stream_reusable(void) {
    CUstream busy, other;
    CUevent event;
    new_context(0);
    OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    CUdeviceptr first = take(CHUNK, busy);
    launch(kernel("long_200ms"), busy);
    OK(cuMemFreeAsync(first, busy));
    OK(cuEventRecord(event, busy));
    OK(cuStreamWaitEvent(other, event, 0));
    EXPECT(take(CHUNK, other) == first);
    EXPECT_RC(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
}

static void without_the_attributes_nothing_is_reused_across_streams(void) {
    CUstream one, other;
    new_context(0);
    CUmemoryPool pool = default_pool();
    int off = 0, value;
    for (int attribute = REUSE_EVENT; attribute <= REUSE_WAIT; attribute++) {
        OK(cuMemPoolGetAttribute(pool, attribute, &value));
        EXPECT(value == 1);
        OK(cuMemPoolSetAttribute(pool, attribute, &off));
        OK(cuMemPoolGetAttribute(pool, attribute, &value));
        EXPECT(value == 0);
    }
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    launch(kernel("long_100ms"), one);
    CUdeviceptr first = take(CHUNK, one);
    OK(cuMemFreeAsync(first, one));
    EXPECT(take(CHUNK, other) != first);
    OK(cuStreamSynchronize(one)); /* the threshold is 0: it goes back to the card */
    EXPECT(figure(pool, RESERVED) == CHUNK);
}

/* On a full card a stream waits for a free to come rather than fail. */
static void a_full_card_makes_streams_wait_for_frees(void) {
    CUstream busy, other;
    CUdeviceptr address;
    new_context(0);
    CUmemoryPool pool = default_pool();
    OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUfunction function = kernel("long_200ms");
    CUdeviceptr first = take(CHUNK, busy);
    OK(cuMemAlloc_v2(&address, free_bytes()));
    launch(function, busy);
    OK(cuMemFreeAsync(first, busy));
    EXPECT(take(CHUNK, other) == first);
    EXPECT_RC(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    EXPECT_RC(cuMemAllocAsync(&address, CHUNK, other), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(figure(pool, RESERVED) == CHUNK);
}

static void the_last_of_the_card_needs_no_whole_chunk(void) {
    CUdeviceptr address;
    new_context(0);
    OK(cuMemAlloc_v2(&address, free_bytes() - 4 * MIB));
    take(3 * MIB, NULL);
    EXPECT(free_bytes() == 0);
}

static const struct check checks[] = {
    CHECK(a_free_waits_for_the_work_before_it),
    CHECK(an_event_makes_memory_of_another_stream_reusable),
    CHECK(without_the_attributes_nothing_is_reused_across_streams),
    CHECK(a_full_card_makes_streams_wait_for_frees),
    CHECK(the_last_of_the_card_needs_no_whole_chunk),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
