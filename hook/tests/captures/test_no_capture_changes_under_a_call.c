/* What a launch, a stream-ordered request or a free went by, that its stream is captured or isn't,
 * still holds when the driver looks: another thread's begin or end of a capture waits for it.
 * Otherwise work ran uncharged, and memory was taken, or given back in the ledger alone. */
#include <pthread.h>
#include <stdatomic.h>

#include "fake/fake.h"
#include "launching.h"

#define BYTES ((size_t)64 << 20)

static CUstream stream;
static _Atomic bool changed;
static pthread_t thread;

static void begin_capture(void) { CHECK(CUDA(cuStreamBeginCapture_v2)(stream, 0) == CUDA_SUCCESS); }

static void end_capture(void) {
    CUgraph graph;
    CHECK(CUDA(cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS);
}

static void *change(void *change_it) {
    ((void (*)(void))change_it)();
    atomic_store(&changed, true);
    return NULL;
}

/* Long enough for the other thread to change the capture, where nothing keeps it. */
static void change_meanwhile(void (*change_it)(void)) {
    const struct timespec pause = {.tv_nsec = 1000000};
    CHECK(pthread_create(&thread, NULL, change, (void *)change_it) == 0);
    for (int i = 0; i < 200 && !atomic_load(&changed); i++) {
        nanosleep(&pause, NULL);
    }
}

static void begin_meanwhile(void) { change_meanwhile(begin_capture); }

static void end_meanwhile(void) { change_meanwhile(end_capture); }

static void call(void (*call_it)(void), void (*turn)(void)) {
    atomic_store(&changed, false);
    FAKE(fake_give_turn)(turn);
    call_it();
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(atomic_load(&changed));
}

static CUdeviceptr taken;

static void launch_kernel(void) { CHECK(try_launch(NS_PER_S, stream) == CUDA_SUCCESS); }

static void launch_graph(void) {
    CHECK(CUDA(cuGraphLaunch)(FAKE_GRAPH(NS_PER_S), stream) == CUDA_SUCCESS);
}

static void take(void) { CHECK(CUDA(cuMemAllocAsync)(&taken, BYTES, stream) == CUDA_SUCCESS); }

static void give_back(void) { CHECK(CUDA(cuMemFreeAsync)(taken, stream) == CUDA_SUCCESS); }

static void expect_captured(void (*launch_it)(void)) {
    unsigned long before = FAKE(fake_captured)();
    begin_capture();
    call(launch_it, end_meanwhile);
    CHECK(FAKE(fake_captured)() == before + 1);
    CHECK(FAKE(fake_busy_ns)() == 0);
}

int main(void) {
    files_make();
    context_make(0);
    CUcontext context;
    CHECK(FAKE(cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
    stream = FAKE(fake_stream_of)(context);
    expect_captured(launch_kernel);
    expect_captured(launch_graph);

    unsigned long long before = FAKE(fake_in_use)();
    begin_capture();
    call(take, end_meanwhile);
    CHECK(FAKE(fake_in_use)() == before); /* a node, and no memory yet */

    CHECK(CUDA(cuMemAlloc_v2)(&taken, BYTES) == CUDA_SUCCESS);
    uint64_t charged = ledger_sum_bytes();
    call(give_back, begin_meanwhile);
    end_capture();
    CHECK(FAKE(fake_in_use)() == before);
    CHECK(charged - ledger_sum_bytes() == BYTES);
    return 0;
}
