/* For any number of first launches, of any length, the charge is never far behind their time: each
 * launch is of a known length or is measured. */
#include "launching.h"

enum { KERNELS = 400 };

int main(void) {
    files_make();
    context_make(0);
    share_publish(50, 50);
    uint64_t begin = wall_ns(), work_ns = 0;
    for (uint64_t i = 0; i < KERNELS; i++) {
        uint64_t ns = 2 * NS_PER_MS + i; /* each has a length, and so a name, of its own */
        launch(ns);
        work_ns += ns;
    }
    /* The queue: pairs that wait for the card, credit and what may be queued. */
    uint64_t queued_ns = (32 * 2 + 50) * NS_PER_MS;
    CHECK(wall_ns() - begin >= 2 * (work_ns - queued_ns));
    CHECK(wall_ns() - begin < 3 * work_ns); /* and no launch waits in vain */
    return 0;
}
