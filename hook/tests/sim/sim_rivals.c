/*
 * Other limiters on the same time line, for comparison; they assert nothing.
 *
 * The original's (TKEStack's vcuda-controller, hard mode): a launch takes as many tokens as its
 * grid has blocks, and waits in steps of 10 ms while there are none; a controller that sees the
 * container's utilisation of the last second sets the refill. A plain token bucket: a launch takes
 * the time that the last one of its function took from its begin to its end, and the bucket fills
 * by the share.
 */
#include "sim.h"

#define STEP_NS (10 * NS_PER_MS)
/* An A100: 108 multiprocessors of 2048 threads, by the original's factor of 32. */
#define POOL (INT64_C(2048) * 108 * 32)
#define GRID_BLOCKS 4096
enum { LOOKS = 10 }; /* a tenth of a second apart */
#define PLAIN_FILL_MAX_NS (100 * NS_PER_MS)

static struct rival {
    int64_t tokens, refill;
    uint64_t seen_ns[LOOKS];
    uint64_t filled_at;
} rivals[SIM_TENANTS];

void sim_rivals_reset(void) {
    for (unsigned i = 0; i < SIM_TENANTS; i++) {
        rivals[i] = (struct rival){.tokens = 0};
    }
}

static int64_t greatest(int64_t one, int64_t other) { return one > other ? one : other; }

static int64_t adjusted(int64_t target, int64_t used, int64_t refill) {
    int64_t distance = greatest(5, target > used ? target - used : used - target);
    int64_t step = INT64_C(108) * 108 * 2048 / 256 * distance / 10;
    if (distance > target / 2) {
        step = step * distance * 2 / (target + 1);
    }
    int64_t next = used <= target ? refill + step : refill - step;
    return next > POOL ? POOL : greatest(0, next);
}

/* The original's watcher, every tenth of a second. */
void sim_rivals_look(uint64_t now) {
    unsigned place = (unsigned)(now / (100 * NS_PER_MS) % LOOKS);
    for (unsigned i = 0; i < world.run->tenants; i++) {
        struct rival *rival = &rivals[i];
        uint64_t busy = world.run->tenant[i].busy_ns;
        int64_t used = (int64_t)((busy - rival->seen_ns[place]) * 100 / NS_PER_S);
        rival->seen_ns[place] = busy;
        rival->refill = adjusted(world.run->tenant[i].percent, used, rival->refill);
        rival->tokens += rival->refill;
        rival->tokens = rival->tokens > POOL ? POOL : rival->tokens;
    }
}

static void fill(struct rival *rival, uint64_t now, uint32_t percent) {
    if (rival->filled_at != 0) {
        rival->tokens += (int64_t)((now - rival->filled_at) * percent / 100);
    }
    rival->tokens =
        rival->tokens > (int64_t)PLAIN_FILL_MAX_NS ? (int64_t)PLAIN_FILL_MAX_NS : rival->tokens;
    rival->filled_at = now;
}

void sim_rivals_wait(const struct sim_process *process, uint64_t length_ns) {
    struct rival *rival = &rivals[process->tenant];
    bool plain = world.run->limiter == SIM_PLAIN;
    uint32_t percent = world.run->tenant[process->tenant].percent;
    for (;;) {
        if (plain) {
            fill(rival, clock_now(), percent);
        }
        if (rival->tokens >= 0) {
            break;
        }
        clock_sleep_until(clock_now() + STEP_NS);
    }
    /* Beside others a kernel lies longer between its events: as if all had the card in turns. */
    rival->tokens -= plain ? (int64_t)(length_ns * world.run->tenants) : GRID_BLOCKS;
}
