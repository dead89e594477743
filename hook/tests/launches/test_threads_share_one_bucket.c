/* Four threads, each on a stream of its own and all on one, have the share together: kernels that
 * run at the same time on several streams count once. */
#include <pthread.h>

#include "launching.h"

enum { THREADS = 4 };

static CUcontext context;
static uint64_t begin;

static void *flood(void *number) {
    CHECK(FAKE(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    while (wall_ns() - begin < 1500 * NS_PER_MS) {
        CHECK(try_launch(200 * NS_PER_US, FAKE_STREAM((uintptr_t)number)) == CUDA_SUCCESS);
        CHECK(try_launch(300 * NS_PER_US, FAKE_STREAM(THREADS + 1)) == CUDA_SUCCESS);
    }
    return NULL;
}

int main(void) {
    files_make();
    context_make(0);
    pthread_t threads[THREADS];
    CHECK(FAKE(cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
    begin = wall_ns();
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, flood, (void *)(i + 1)) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    double usage = (double)FAKE(fake_busy_ns)() / 15e6;
    printf("%.1f %%\n", usage);
    CHECK(usage > 35 && usage < 62);
    return 0;
}
