/* A launch that the hook has let pass, because it goes into a capture, is still captured when the
 * driver looks: another thread's end of the capture waits for it. Otherwise it ran uncharged. */
#include <pthread.h>
#include <stdatomic.h>

#include "launching.h"

static _Atomic bool ended;
static pthread_t thread;

static void *end_capture(void *none) {
    CUgraph graph;
    CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(1), &graph) == CUDA_SUCCESS);
    atomic_store(&ended, true);
    return none;
}

/* Long enough for the other thread to end the capture, where nothing keeps it. */
static void end_meanwhile(void) {
    const struct timespec pause = {.tv_nsec = 1000000};
    CHECK(pthread_create(&thread, NULL, end_capture, NULL) == 0);
    for (int i = 0; i < 200 && !atomic_load(&ended); i++) {
        nanosleep(&pause, NULL);
    }
}

static void expect_captured(CUresult (*launch_it)(void)) {
    unsigned long before = FAKE(fake_captured)();
    atomic_store(&ended, false);
    CHECK(CUDA(cuStreamBeginCapture_v2)(FAKE_STREAM(1), 0) == CUDA_SUCCESS);
    FAKE(fake_before_launch)(end_meanwhile);
    CHECK(launch_it() == CUDA_SUCCESS);
    FAKE(fake_before_launch)(NULL);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(atomic_load(&ended));
    CHECK(FAKE(fake_captured)() == before + 1);
    CHECK(FAKE(fake_busy_ns)() == 0);
}

static CUresult launch_kernel(void) { return try_launch(NS_PER_S, FAKE_STREAM(1)); }

static CUresult launch_graph(void) {
    return CUDA(cuGraphLaunch)(FAKE_GRAPH(NS_PER_S), FAKE_STREAM(1));
}

int main(void) {
    files_make();
    context_make(0);
    expect_captured(launch_kernel);
    expect_captured(launch_graph);
    expect_captured(launch_kernel); /* the first left nothing behind */
    return 0;
}
