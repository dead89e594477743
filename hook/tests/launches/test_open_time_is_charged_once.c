/* A process that ends with a launch of unknown length unmeasured is charged for it by the one that
 * takes its slot, once, and at most for the time since. One that settles it owes what it took: by
 * waiting for it, by its context's end, or by its own. */
#include <signal.h>
#include <unistd.h>

#include "launching.h"

#define KERNEL_NS (200 * NS_PER_MS)
#define KNOWN_NS (20 * NS_PER_MS)
#define KNOWN 6

static uint64_t open_ns(void) {
    uint64_t sum = 0;
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        sum += ledger_map()->slots[slot].cards[0].open_ns;
    }
    return sum;
}

static void launch_alone(void) {
    context_make(0);
    launch(KERNEL_NS);
    CHECK(open_ns() == NS_PER_S);
}

static void sleep_ns(long ns) {
    const struct timespec pause = {.tv_nsec = ns};
    nanosleep(&pause, NULL);
}

static void sleep_over(void) { sleep_ns(210000000); }

static void dies(void) {
    launch_alone();
    sleep_over();
    raise(SIGKILL);
}

static void waits(void) {
    launch_alone();
    sleep_over();
    CHECK(CUDA(cuStreamSynchronize)(FAKE_STREAM(1)) == CUDA_SUCCESS);
    CHECK(open_ns() == 0);
    raise(SIGKILL);
}

static void destroys(void) {
    CUcontext context;
    CHECK(CUDA(cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
    launch(KERNEL_NS);
    sleep_over();
    CHECK(CUDA(cuCtxDestroy_v2)(context) == CUDA_SUCCESS);
    CHECK(open_ns() == 0);
    raise(SIGKILL);
}

static void destroys_at_once(void) {
    CUcontext context;
    CHECK(CUDA(cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
    launch(KERNEL_NS);
    CHECK(CUDA(cuCtxDestroy_v2)(context) == CUDA_SUCCESS);
    CHECK(open_ns() == 0);
    raise(SIGKILL);
}

static void ends(void) {
    launch_alone();
    sleep_over();
    exit(0);
}

/* The last launch of a known function is settled by the process's end. */
static void ends_after_known_ones(void) {
    context_make(0);
    for (int i = 0; i < KNOWN; i++) {
        launch(KNOWN_NS);
        sleep_ns(KNOWN_NS + 5 * NS_PER_MS);
        if (i < KNOWN - 1) {
            CHECK(CUDA(cuStreamSynchronize)(FAKE_STREAM(1)) == CUDA_SUCCESS);
        }
    }
    exit(0);
}

static void begins(void) {
    context_make(0);
    launch(0);
    exit(0);
}

/* For how long a process that comes after another one waits, in milliseconds: by the other's debt.
 */
static int wait_ms(void) {
    wait_child(start_child(begins));
    return (int)(ledger_did().throttled_ns / NS_PER_MS);
}

static int debt_of(void (*run)(void)) {
    ledger_map()->cards[0].paid_until_ns = 0;
    wait_child(start_child(run));
    int first = wait_ms(), second = wait_ms();
    CHECK(second < 50);
    CHECK(open_ns() == 0);
    return first;
}

int main(void) {
    files_make();
    int killed = debt_of(dies), waited = debt_of(waits), destroyed = debt_of(destroys),
        early = debt_of(destroys_at_once), ended = debt_of(ends);
    printf("%d %d %d %d %d ms\n", killed, waited, destroyed, early, ended);
    fflush(stdout);
    /* 400 ms, less the time since and what had been saved up */
    CHECK(killed > 50 && killed < 600);
    CHECK(waited > 50 && waited < 400);
    CHECK(destroyed > 50 && destroyed < 400);
    CHECK(early < 50);
    CHECK(ended > 50 && ended < 400);
    const uint64_t *measured = &ledger_map()->cards[0].measured_ns, before = *measured;
    wait_child(start_child(ends_after_known_ones));
    CHECK(*measured - before > KNOWN * KNOWN_NS - KNOWN_NS / 2);
    return 0;
}
