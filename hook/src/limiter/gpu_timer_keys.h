/*
 * How long a launch takes on the card: the last measured times of each function and shape. Plain
 * data of one process; callers hold the limiter's lock.
 */
#ifndef HOOK_GPU_TIMER_KEYS_H
#define HOOK_GPU_TIMER_KEYS_H

#include <stdbool.h>
#include <stdint.h>

/* Of a new function or shape the first so many launches are measured, each. */
enum { GPU_TIMER_KEYS = 1024, GPU_TIMER_TIMES = 12, GPU_TIMER_NEW = 4 };

struct gpu_timer_key {
    const void *function; /* a graph's executable too */
    uint64_t shape;       /* grid and block, mixed */
};

struct gpu_timer_estimate {
    struct gpu_timer_key key;
    uint64_t threads;
    uint32_t measured; /* how often, at most GPU_TIMER_TIMES */
    uint32_t next;
    uint32_t pending;  /* measurements under way: of functions alone */
    uint64_t used_at;  /* count of look-ups: the least recently used one is replaced */
    uint64_t low_ns;   /* lower quartile of the spans: others' slices make them longer */
    uint64_t span_ns;  /* their mean */
    uint64_t mean_ns;  /* of the times that stand for the spans */
    uint32_t unsteady; /* for so many more launches, each measured: its data decide its length */
    uint64_t spans_ns[GPU_TIMER_TIMES];
    uint64_t times_ns[GPU_TIMER_TIMES];
};

struct gpu_timer_keys {
    uint64_t lookups;
    struct gpu_timer_estimate estimates[GPU_TIMER_KEYS];
};

/* The estimate of a key, made where there is none. Never NULL; may be of a key that was dropped
 * for it, so a pointer is good while the lock is held only. */
struct gpu_timer_estimate *gpu_timer_keys_find(struct gpu_timer_keys *keys,
                                               struct gpu_timer_key key, uint64_t threads);
/*
 * A launch took `span_ns` of the card's clock, and `others` other processes with slices of 2 ms may
 * have had a part of that. Returns the launch's own time: alone, all of it; else the rest after
 * others took all that they could, and for less than a slice the lower quartile of the spans.
 */
uint64_t gpu_timer_estimate_learn(struct gpu_timer_estimate *estimate, uint64_t span_ns,
                                  uint32_t others);
/* A part of a span by the agent's count, which is `factor` times ours: for a long launch, which is
 * measured each time, no more than the span. */
uint64_t gpu_timer_corrected_ns(uint64_t ns, uint64_t span_ns, double factor);
/* The entry of a function: what its last launches of any shape took, and their threads. */
struct gpu_timer_estimate *gpu_timer_keys_function(struct gpu_timer_keys *keys,
                                                   const void *function);
void gpu_timer_function_learn(struct gpu_timer_estimate *function, uint64_t threads, uint64_t ns);
/* A new shape of a function that was measured: in proportion to its threads. 0: the function is
 * unknown as well. */
uint64_t gpu_timer_function_guess_ns(const struct gpu_timer_estimate *function, uint64_t threads);

#endif
