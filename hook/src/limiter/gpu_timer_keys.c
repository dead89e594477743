#include "limiter/gpu_timer_keys.h"

#include <stddef.h>
#include <string.h>

#include "shared/clock.h"

/* Places that a key may lie in: few enough to look at on each launch. */
enum { WAYS = 4 };

static bool same(struct gpu_timer_key one, struct gpu_timer_key other) {
    return one.function == other.function && one.shape == other.shape;
}

/* Fibonacci hashing, of both parts: a program has many shapes of few functions, or the reverse. */
static size_t first_way(struct gpu_timer_key key) {
    uint64_t function = (uint64_t)(uintptr_t)key.function * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t both = (function ^ key.shape) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(both >> 40) % (GPU_TIMER_KEYS / WAYS) * WAYS;
}

struct gpu_timer_estimate *gpu_timer_keys_find(struct gpu_timer_keys *keys,
                                               struct gpu_timer_key key, uint64_t threads) {
    struct gpu_timer_estimate *way = &keys->estimates[first_way(key)];
    struct gpu_timer_estimate *oldest = way;
    keys->lookups++;
    for (unsigned i = 0; i < WAYS; i++) {
        if (way[i].used_at != 0 && same(way[i].key, key)) {
            way[i].used_at = keys->lookups;
            return &way[i];
        }
        oldest = way[i].used_at < oldest->used_at ? &way[i] : oldest;
    }
    memset(oldest, 0, sizeof *oldest);
    oldest->key = key;
    oldest->threads = threads;
    oldest->used_at = keys->lookups;
    return oldest;
}

static void sort(uint64_t *times, unsigned count) {
    for (unsigned i = 1; i < count; i++) {
        uint64_t time = times[i];
        unsigned place = i;
        for (; place > 0 && times[place - 1] > time; place--) {
            times[place] = times[place - 1];
        }
        times[place] = time;
    }
}

/* A launch of many more threads than any before isn't believed to take longer than this. */
#define GUESS_MAX_NS 1e9
/* The time of a process before the card runs another: the driver's default time slice. */
#define SLICE_NS UINT64_C(2000000)

/* The launch's own part of a span, estimated low: what is too little is charged later
 * (limiter_audit.c); too much would leave a card idle that is promised in full. */
static uint64_t own_part(const struct gpu_timer_estimate *estimate, uint64_t span_ns,
                         uint32_t others) {
    uint64_t slices = others * SLICE_NS;
    uint64_t least = span_ns > slices ? (span_ns - slices) / (others + 1) : 0;
    uint64_t shorter = span_ns < estimate->low_ns ? span_ns : estimate->low_ns;
    uint64_t whole = shorter < SLICE_NS ? shorter : SLICE_NS; /* may not have been interrupted */
    if (others == 0) {
        return span_ns;
    }
    return whole > least ? whole : least;
}

/* A launch is steady again when so many measured ones took the same time, within a factor of 2. */
enum { STEADY_TIMES = 256 };
/* Of shorter ones the differences aren't worth a pair around each. */
#define UNSTEADY_NS (100 * NS_PER_US)

uint64_t gpu_timer_estimate_learn(struct gpu_timer_estimate *estimate, uint64_t span_ns,
                                  uint32_t others) {
    uint64_t sorted[GPU_TIMER_TIMES], sum = 0, spans = 0;
    uint32_t place = estimate->next;
    estimate->next = (place + 1) % GPU_TIMER_TIMES;
    estimate->measured += estimate->measured < GPU_TIMER_TIMES;
    estimate->spans_ns[place] = span_ns;
    memcpy(sorted, estimate->spans_ns, sizeof sorted);
    sort(sorted, estimate->measured);
    estimate->low_ns = sorted[(estimate->measured - 1) / 4];
    estimate->unsteady -= estimate->unsteady != 0;
    uint64_t longest = sorted[estimate->measured - 1];
    if (others == 0 && longest > UNSTEADY_NS && longest > 2 * sorted[0]) {
        estimate->unsteady = STEADY_TIMES;
    }
    estimate->times_ns[place] = own_part(estimate, span_ns, others);
    for (unsigned i = 0; i < estimate->measured; i++) {
        sum += estimate->times_ns[i];
        spans += estimate->spans_ns[i];
    }
    estimate->mean_ns = sum / estimate->measured;
    estimate->span_ns = spans / estimate->measured;
    return estimate->times_ns[place];
}

uint64_t gpu_timer_corrected_ns(uint64_t ns, uint64_t span_ns, double factor) {
    uint64_t corrected = (uint64_t)((double)ns * factor);
    return span_ns >= SLICE_NS && corrected > span_ns ? span_ns : corrected;
}

struct gpu_timer_estimate *gpu_timer_keys_function(struct gpu_timer_keys *keys,
                                                   const void *function) {
    /* No launch has this shape. */
    return gpu_timer_keys_find(
        keys, (struct gpu_timer_key){.function = function, .shape = UINT64_MAX}, 0);
}

void gpu_timer_function_learn(struct gpu_timer_estimate *function, uint64_t threads, uint64_t ns) {
    bool first = function->measured == 0;
    function->measured += function->measured < GPU_TIMER_NEW;
    function->threads = first ? threads : function->threads - function->threads / 8 + threads / 8;
    function->mean_ns = first ? ns : function->mean_ns - function->mean_ns / 8 + ns / 8;
}

uint64_t gpu_timer_function_guess_ns(const struct gpu_timer_estimate *function, uint64_t threads) {
    if (function->measured == 0 || function->threads == 0) {
        return 0;
    }
    double guess = (double)function->mean_ns * (double)threads / (double)function->threads;
    return guess > GUESS_MAX_NS ? (uint64_t)GUESS_MAX_NS : (uint64_t)guess;
}
