/* A launch by a callback on a driver's thread is never delayed, also when the container is deep in
 * debt; a launch by the program's own thread is. */
#include <unistd.h>

#include "launching.h"

static int said[2];

static void launch_a_hundred(void *data) {
    CHECK(data == said);
    for (int i = 0; i < 100; i++) {
        CHECK(try_launch(100 * NS_PER_MS, FAKE_STREAM(3)) == CUDA_SUCCESS);
    }
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
    CHECK(CUDA(cuLaunchHostFunc)(FAKE_STREAM(1), launch_a_hundred, said) == CUDA_SUCCESS);
    await(said);
    CHECK(CUDA(cuLaunchHostFunc_v2)(FAKE_STREAM(1), launch_a_hundred, said, 1) == CUDA_SUCCESS);
    await(said);
    CHECK(CUDA(cuLaunchHostFunc_v2)(FAKE_STREAM(1), launch_a_hundred, said, 9) == 1);
    CHECK(wall_ns() - begin < 100 * NS_PER_MS);
    launch(NS_PER_US);
    CHECK(wall_ns() - begin > 100 * NS_PER_MS);
    return 0;
}
