/* While a stream is captured, its launches are neither charged nor delayed, no event of ours gets
 * into it, and our calls on other threads and streams don't disturb it. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "launching.h"

static _Atomic bool over;

static void *launch_meanwhile(void *context) {
    CHECK(FAKE(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    for (uint64_t ns = 10 * NS_PER_US; !atomic_load(&over); ns += NS_PER_US) {
        CHECK(try_launch(ns, FAKE_STREAM(2)) == CUDA_SUCCESS); /* a new length is measured */
    }
    return NULL;
}

/* Until our events were recorded on the other thread: one launch began after this call. */
static void await_events(void) {
    unsigned long before = FAKE(fake_events_recorded)();
    while (FAKE(fake_events_recorded)() < before + 4) { /* a launch records two, or four */
        sched_yield();
    }
}

int main(void) {
    files_make();
    context_make(0);
    CUcontext context;
    CUgraph graph;
    pthread_t thread;
    CHECK(FAKE(cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
    launch(100 * NS_PER_US);
    CHECK(pthread_create(&thread, NULL, launch_meanwhile, context) == 0);
    for (int round = 0; round < 20; round++) {
        CHECK(CUDA(cuStreamBeginCapture_v2)(FAKE_STREAM(1), 0) == CUDA_SUCCESS);
        uint64_t begin = wall_ns();
        for (int i = 0; i < 50; i++) {
            CHECK(try_launch(NS_PER_S, FAKE_STREAM(1)) == CUDA_SUCCESS);
        }
        CHECK(wall_ns() - begin < 200 * NS_PER_MS);
        await_events();
        CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(1), &graph) == CUDA_SUCCESS);
    }
    atomic_store(&over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(FAKE(fake_captured)() == 1000);
    CHECK(FAKE(fake_capture_violations)() == 0);
    CHECK(ledger_did().busy_ns < 5 * NS_PER_S);
    usage_of_flood(NS_PER_MS, 300 * NS_PER_MS);
    CHECK(usage_of_flood(NS_PER_MS, 500 * NS_PER_MS) < 60); /* launches count again */
    return 0;
}
