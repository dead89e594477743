/* A child has a slot of its own, doesn't keep its parent's memory charged, and frees none of it. */
#include <signal.h>
#include <unistd.h>

#include "support.h"

static int said[2], go[2];
static CUdeviceptr inherited;

static void linger(void) {
    tell(said);
    await(go);
}

static void hold_and_fork(void) {
    context_make(0);
    allocate(300 * MIB);
    start_child(linger);
    pause();
}

/* The fake driver lets a child go on with its parent's context, which a real one refuses: the worst
 * case for the account. */
static void use_what_the_parent_had(void) {
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 10 * MIB);
    allocate(20 * MIB); /* the context is new to this process: it is charged here too */
    CHECK(ledger_sum_bytes() == 2 * CONTEXT_BYTES + 30 * MIB);
    release(inherited);
    CHECK(ledger_sum_bytes() == 2 * CONTEXT_BYTES + 30 * MIB);
}

int main(void) {
    files_make();
    CHECK(pipe(said) == 0 && pipe(go) == 0);
    pid_t parent = start_child(hold_and_fork);
    await(said);
    kill(parent, SIGKILL);
    CHECK(wait_child(parent) == 128 + SIGKILL);
    context_make(0); /* while the grandchild still lives */
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    tell(go);

    inherited = allocate(10 * MIB);
    CHECK(in_child(use_what_the_parent_had) == 0);
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES - 10 * MIB) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 10 * MIB);
    return 0;
}
