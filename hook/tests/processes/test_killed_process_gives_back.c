/* The memory of a process is free for others as soon as it is killed, at any instruction. */
#include <signal.h>
#include <unistd.h>

#include "support.h"

static int holding[2];

static void hold(void) {
    context_make(0);
    allocate(SHARE_BYTES - CONTEXT_BYTES);
    tell(holding);
    pause();
}

static void churn(void) {
    context_make(0);
    tell(holding);
    for (;;) {
        release(allocate(4 * MIB));
    }
}

int main(void) {
    files_make();
    CHECK(pipe(holding) == 0);
    pid_t child = start_child(hold);
    await(holding);
    CHECK(ledger_sum_bytes() == SHARE_BYTES);
    CHECK(in_child(hold) == 1); /* no room for its context */
    kill(child, SIGKILL);
    CHECK(wait_child(child) == 128 + SIGKILL);

    for (unsigned i = 0; i < 200; i++) {
        child = start_child(churn);
        await(holding);
        for (volatile unsigned wait = 0; wait < i * 97; wait++) {
        }
        kill(child, SIGKILL);
        CHECK(wait_child(child) == 128 + SIGKILL);
    }
    context_make(0);
    size_t available, total;
    CHECK(CUDA(cuMemGetInfo_v2)(&available, &total) == CUDA_SUCCESS);
    CHECK(available == SHARE_BYTES - CONTEXT_BYTES);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES && ledger_slots_bytes() == CONTEXT_BYTES);
    CHECK(try_allocate(available) == CUDA_SUCCESS);
    return 0;
}
