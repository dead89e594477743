/* A launch into a capture may call the program back (cuStreamBeginRecaptureToGraph), and that may
 * begin and end captures: two threads that do so at the same moment don't wait for each other. */
#include <pthread.h>

#include "launching.h"

static CUcontext context;
static pthread_barrier_t both;
static pthread_t other;

static void capture_on(int stream) {
    CUgraph graph;
    CHECK(CUDA(cuStreamBeginCapture_v2)(FAKE_STREAM(stream), 2) == CUDA_SUCCESS);
    CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(stream), &graph) == CUDA_SUCCESS);
}

static void call_back(int stream) {
    pthread_barrier_wait(&both);
    capture_on(stream);
}

static void call_other_back(void) { call_back(4); }

static void *launch_on_other(void *nothing) {
    ((__typeof__(cuCtxSetCurrent) *)cuda_function("cuCtxSetCurrent"))(context);
    FAKE(fake_give_turn)(call_other_back);
    CHECK(try_launch(NS_PER_S, FAKE_STREAM(2)) == CUDA_SUCCESS);
    return nothing;
}

static void call_first_back(void) {
    CHECK(pthread_create(&other, NULL, launch_on_other, NULL) == 0);
    call_back(3);
}

int main(void) {
    files_make();
    context_make(0);
    CHECK(FAKE(cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    for (int stream = 1; stream <= 2; stream++) {
        CHECK(CUDA(cuStreamBeginCapture_v2)(FAKE_STREAM(stream), 2) == CUDA_SUCCESS);
    }
    FAKE(fake_give_turn)(call_first_back);
    CHECK(try_launch(NS_PER_S, FAKE_STREAM(1)) == CUDA_SUCCESS);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(FAKE(fake_captured)() == 2);
    capture_on(5); /* no call is held any more */
    return 0;
}
