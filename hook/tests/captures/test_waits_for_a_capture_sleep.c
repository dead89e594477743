/* The begin of a capture waits for calls that went by their stream's state, and calls that come
 * meanwhile wait for it. They sleep: by looking again and again, many callers would keep the begin
 * from ever finding none of them at work. */
#include <pthread.h>
#include <stdatomic.h>

#include "fake/fake.h"
#include "launching.h"

#define BYTES ((size_t)2 << 20)
#define LOOK_NS (300 * NS_PER_MS)
#define MOST_NS (LOOK_NS / 10)

static CUstream stream;
static pthread_t changer, caller;
static _Atomic bool changed;
static _Atomic unsigned started;
static _Atomic unsigned long calls;

static void take_and_give_back(void) {
    CUdeviceptr pointer;
    CHECK(CUDA(cuMemAllocAsync)(&pointer, BYTES, stream) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemFreeAsync)(pointer, stream) == CUDA_SUCCESS);
}

static void *change(void *nothing) {
    atomic_fetch_add(&started, 1);
    CHECK(CUDA(cuStreamBeginCapture_v2)(FAKE_STREAM(1), 2) == CUDA_SUCCESS);
    atomic_store(&changed, true);
    return nothing;
}

static void *call(void *nothing) {
    atomic_fetch_add(&started, 1);
    do {
        take_and_give_back();
        atomic_fetch_add(&calls, 1);
    } while (!atomic_load(&changed));
    return nothing;
}

static void sleep_ns(uint64_t ns) {
    const struct timespec pause = {.tv_nsec = (long)ns};
    nanosleep(&pause, NULL);
}

static uint64_t processor_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

/* A call of this thread has reached the driver: both others come to wait for its end. */
static void look(void) {
    unsigned long before;
    CHECK(pthread_create(&changer, NULL, change, NULL) == 0);
    CHECK(pthread_create(&caller, NULL, call, NULL) == 0);
    do {
        before = atomic_load(&calls);
        sleep_ns(LOOK_NS);
    } while (atomic_load(&started) != 2 || atomic_load(&calls) != before);
    uint64_t used_ns = processor_ns();
    sleep_ns(LOOK_NS);
    CHECK(processor_ns() - used_ns < MOST_NS);
    CHECK(!atomic_load(&changed));
}

int main(void) {
    CUcontext context;
    CUgraph graph;
    files_make();
    context_make(0);
    CHECK(FAKE(cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
    stream = FAKE(fake_stream_of)(context);
    FAKE(fake_give_turn)(look);
    take_and_give_back();
    CHECK(pthread_join(changer, NULL) == 0);
    CHECK(pthread_join(caller, NULL) == 0);
    CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(1), &graph) == CUDA_SUCCESS);
    return 0;
}
