/* A launch by a callback on a driver's thread waits like any other: CUDA forbids it, and a driver
 * of the tenant's own would run every launch in one. */
#include <unistd.h>

#include "launching.h"

static int said[2];

static void launch_one(void *data) {
    CHECK(data == said);
    CHECK(try_launch(NS_PER_US, FAKE_STREAM(3)) == CUDA_SUCCESS);
    tell(said);
}

int main(void) {
    files_make();
    context_make(0);
    CHECK(pipe(said) == 0);
    launch(200 * NS_PER_MS);
    FAKE(fake_await)(FAKE_STREAM(1));
    launch(200 * NS_PER_MS); /* its length is known: 400 ms are to be waited for */
    uint64_t begin = wall_ns();
    CHECK(FAKE(cuLaunchHostFunc)(FAKE_STREAM(1), launch_one, said) == CUDA_SUCCESS);
    await(said);
    CHECK(wall_ns() - begin > 100 * NS_PER_MS);
    return 0;
}
