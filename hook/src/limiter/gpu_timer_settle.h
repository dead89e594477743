/* The result of a pair of events that has passed. */
#ifndef HOOK_GPU_TIMER_SETTLE_H
#define HOOK_GPU_TIMER_SETTLE_H

#include "limiter/gpu_timer.h"

struct gpu_timer_passed {
    int sample;
    int64_t span_ns;  /* between the two events */
    int64_t clock_ns; /* of the second, on the card's clock */
};
/* The neighbours on the card, and the ratio of the agent's count to ours. */
struct gpu_timer_sharing {
    uint32_t others;
    double factor;
};

/* A pair has passed. */
void gpu_timer_settle(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_passed *passed, struct gpu_timer_sharing sharing,
                      struct gpu_timer_bill *bill);

/* What the launches of unknown length, which lie open, have taken at most; for one that isn't over
 * after GPU_TIMER_UNKNOWN_NS, that. */
uint64_t gpu_timer_open_ns(const struct gpu_timer *timer, uint64_t now);

#endif
