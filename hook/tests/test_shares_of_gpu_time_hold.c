/* Six cells of the simulation's matrix (sim_share.c) at wall clock: the card is busy for as much of
 * the time as the share says, within 3 points. */
#include "launching.h"

static void flood(uint32_t percent, uint64_t kernel_ns) {
    share_publish(percent, percent);
    usage_of_flood(kernel_ns, 250 * NS_PER_MS); /* until the lengths are known */
    double usage = usage_of_flood(kernel_ns, 750 * NS_PER_MS);
    printf("%u %% in kernels of %lu us: %.2f %%\n", percent, (unsigned long)(kernel_ns / NS_PER_US),
           usage);
    CHECK(usage >= percent - 3.0 && usage <= percent + 3.0);
}

int main(void) {
    files_make();
    context_make(0);
    flood(10, 20 * NS_PER_US);
    flood(50, 20 * NS_PER_US);
    flood(90, 20 * NS_PER_US);
    flood(10, 2 * NS_PER_MS);
    flood(50, 2 * NS_PER_MS);
    flood(90, 10 * NS_PER_MS);
    return 0;
}
