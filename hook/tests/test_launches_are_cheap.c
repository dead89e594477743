/* What a gate adds to a launch, without waits and with nobody in its way: 50 ns where the card
 * isn't limited, 150 ns where it is. The best of many rounds: others use the machine too. */
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
    printf("gate of cuLaunchKernel: %.1f ns unlimited, %.1f ns limited\n", unlimited, limited);
    CHECK(unlimited <= 50);
    CHECK(limited <= 150);
    return 0;
}
