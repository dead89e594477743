/* Shared by tests of launches: kernels of a stated length, and their entries in the ledger. */
#ifndef LAUNCHING_H
#define LAUNCHING_H

#include <time.h>

#include "fake/fake_launch.h"
#include "shared/clock.h"
#include "support.h"

#define FAKE(name) ((__typeof__(&name))cuda_function(#name))

static inline uint64_t wall_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static inline CUresult try_launch(uint64_t ns, CUstream stream) {
    static cuLaunchKernel_fn *_Atomic known;
    cuLaunchKernel_fn *function = known;
    if (function == NULL) {
        known = function = CUDA(cuLaunchKernel);
    }
    return function(FAKE_KERNEL(ns), 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

static inline void launch(uint64_t ns) { CHECK(try_launch(ns, FAKE_STREAM(1)) == CUDA_SUCCESS); }

/* The share of card 0, in percent. */
static inline void share_publish(uint32_t percent, uint32_t burst_percent) {
    struct vcuda_limits_body body = limits_default();
    body.devices[0].compute_percent = percent;
    body.devices[0].burst_percent = burst_percent;
    limits_publish(&body);
}

/* Launches for so long, without a wait, and returns how much of the time the card was busy, in
 * percent. */
static inline double usage_of_flood(uint64_t kernel_ns, uint64_t for_ns) {
    unsigned long long (*busy)(void) = FAKE(fake_busy_ns);
    uint64_t begin = wall_ns(), now;
    unsigned long long before = busy();
    do {
        launch(kernel_ns);
        now = wall_ns();
    } while (now - begin < for_ns);
    return 100.0 * (double)(busy() - before) / (double)(now - begin);
}

/* The work of the container's processes on card 0. */
static inline struct vcuda_ledger_entry ledger_did(void) {
    struct vcuda_ledger_entry sum = {.used = 0};
    struct vcuda_ledger_file *file = ledger_map();
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        const struct vcuda_ledger_entry *entry = &file->slots[slot].cards[0];
        sum.busy_ns += entry->busy_ns;
        sum.throttled_ns += entry->throttled_ns;
        sum.last_want_ns =
            entry->last_want_ns > sum.last_want_ns ? entry->last_want_ns : sum.last_want_ns;
    }
    return sum;
}

#endif
