/* Prints a gate's cost for a launch, in nanoseconds, without waits and with the card free: on a
 * card without a limit, and on one with a limit. The best of many rounds: others use the machine
 * too. A measurement and no test: make bench runs it. */
#include "launching.h"

enum { ROUNDS = 40, LAUNCHES = 20000 };

static double best_ns(cuLaunchKernel_fn *function) {
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begin = wall_ns();
        for (int i = 0; i < LAUNCHES; i++) {
            function(FAKE_KERNEL(UINT64_C(0)), 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
        }
        double each = (double)(wall_ns() - begin) / LAUNCHES;
        best = each < best ? each : best;
    }
    return best;
}

int main(void) {
    files_make();
    context_make(0);
    cuLaunchKernel_fn *direct = (cuLaunchKernel_fn *)cuda_function("fake_launch_ungated");
    double driver = best_ns(direct);
    double limited = best_ns(CUDA(cuLaunchKernel)) - driver;
    share_publish(100, 100);
    best_ns(CUDA(cuLaunchKernel));
    double unlimited = best_ns(CUDA(cuLaunchKernel)) - driver;
    printf("%.1f %.1f\n", unlimited, limited);
    return 0;
}
