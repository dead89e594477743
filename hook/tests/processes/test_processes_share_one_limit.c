/* Eight processes take pages until refused: together they get the share, to the page. */
#include <unistd.h>

#include "support.h"

enum { PROCESSES = 8 };
static int ready[2], go[2], count[2], end[2];

static void take_all(void) {
    context_make(0);
    tell(ready);
    await(go);
    unsigned taken = 0;
    CUdeviceptr pointer;
    while (CUDA(cuMemAlloc_v2)(&pointer, 2 * MIB) == CUDA_SUCCESS) {
        taken++;
    }
    CHECK(write(count[1], &taken, sizeof taken) == sizeof taken);
    await(end); /* holds it until all have counted */
}

int main(void) {
    files_make();
    struct vcuda_limits_body limits = limits_default();
    limits.devices[0].memory_bytes = PROCESSES * CONTEXT_BYTES + 300 * MIB;
    limits_write(&limits);
    CHECK(pipe(ready) == 0 && pipe(go) == 0 && pipe(count) == 0 && pipe(end) == 0);
    pid_t children[PROCESSES];
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = start_child(take_all);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        await(ready);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        tell(go);
    }
    unsigned total = 0, taken;
    for (unsigned i = 0; i < PROCESSES; i++) {
        CHECK(read(count[0], &taken, sizeof taken) == sizeof taken);
        total += taken;
    }
    CHECK(total == 150);
    CHECK(ledger_sum_bytes() == limits.devices[0].memory_bytes);
    CHECK(ledger_slots_bytes() == ledger_sum_bytes());
    for (unsigned i = 0; i < PROCESSES; i++) {
        tell(end);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        CHECK(wait_child(children[i]) == 0);
    }
    context_make(0);
    CHECK(try_allocate(limits.devices[0].memory_bytes - CONTEXT_BYTES) == CUDA_SUCCESS);
    return 0;
}
