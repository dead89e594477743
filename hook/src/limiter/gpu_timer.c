#include "limiter/gpu_timer.h"

#include <stddef.h>

#include "shared/clock.h"

/* A pair costs the program some 4 us of processor time; 1 % of the time between two pairs. */
#define PAIR_EVERY_NS (500 * NS_PER_US)
/* Estimates may be wrong by much, and then that was too seldom. */
#define PAIR_AT_LEAST_NS (5 * NS_PER_MS)
/* No driver takes more between two events. */
#define EMPTY_MAX_NS ((int64_t)(10 * NS_PER_US))
enum { EMPTY_PAIRS = 4 };

uint64_t gpu_timer_estimate_ns(struct gpu_timer_keys *keys,
                               const struct gpu_timer_estimate *estimate, uint64_t threads,
                               double factor) {
    if (estimate->measured == 0) {
        return gpu_timer_function_guess_ns(gpu_timer_keys_function(keys, estimate->key.function),
                                           threads);
    }
    return gpu_timer_corrected_ns(estimate->mean_ns, estimate->span_ns, factor);
}

static struct gpu_timer_stream *find_stream(struct gpu_timer *timer, const void *id, uint64_t now) {
    struct gpu_timer_stream *oldest = timer->streams;
    for (int i = 0; i < GPU_TIMER_STREAMS; i++) {
        struct gpu_timer_stream *stream = &timer->streams[i];
        if (stream->id == id) {
            stream->used_at = now;
            return stream;
        }
        oldest = stream->used_at < oldest->used_at ? stream : oldest;
    }
    oldest->id = id;
    oldest->used_at = now;
    oldest->busy_until = 0;
    return oldest;
}

/* The legacy default stream is one stream; each thread has a per-thread one. */
static const void *stream_id(const struct gpu_timer_work *work) {
    static const char legacy_default;
    static __thread char own_default;
    if (work->stream != NULL) {
        return work->stream;
    }
    return work->per_thread ? &own_default : &legacy_default;
}

/* Half to one and a half times the mean, so that no program's rhythm hides in the gaps. */
static uint64_t draw(struct gpu_timer *timer, uint64_t mean) {
    timer->random = timer->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return mean / 2 + (timer->random >> 33) * mean / (UINT64_C(1) << 31);
}

static bool is_due(const struct gpu_timer *timer, const struct gpu_timer_estimate *estimate,
                   uint64_t now) {
    return estimate->unsteady != 0 || estimate->measured < GPU_TIMER_NEW ||
           timer->charged_ns >= timer->due_ns || now - timer->paired_at >= PAIR_AT_LEAST_NS;
}

/* A free pair, with its former events. */
static int take_pair(struct gpu_timer *timer) {
    int number = 0;
    while (number < GPU_TIMER_PAIRS && timer->pairs[number].state != GPU_TIMER_FREE) {
        number++;
    }
    if (number == GPU_TIMER_PAIRS) {
        return GPU_TIMER_NONE;
    }
    struct gpu_timer_pair *pair = &timer->pairs[number];
    *pair =
        (struct gpu_timer_pair){.state = GPU_TIMER_TAKEN, .begin = pair->begin, .end = pair->end};
    timer->in_use++;
    return number;
}

/* Of a function that was never measured one launch is made, and waited for; then some more, which
 * show whether their data decide how long they run. Otherwise a thousand launches could be queued
 * at the price of the first. */
bool gpu_timer_can_launch(const struct gpu_timer *timer, struct gpu_timer_keys *keys,
                          const struct gpu_timer_estimate *estimate) {
    bool pair = timer->in_use < GPU_TIMER_PAIRS;
    if (estimate->measured >= GPU_TIMER_NEW) {
        return pair || estimate->unsteady == 0;
    }
    const struct gpu_timer_estimate *function =
        gpu_timer_keys_function(keys, estimate->key.function);
    uint32_t most = function->measured == 0 ? 1 : GPU_TIMER_NEW - function->measured;
    bool known = function->measured == GPU_TIMER_NEW;
    return pair && timer->unknown < GPU_TIMER_UNKNOWN && (known || function->pending < most);
}

int gpu_timer_take_empty(struct gpu_timer *timer) {
    int number = timer->empties < EMPTY_PAIRS ? take_pair(timer) : GPU_TIMER_NONE;
    if (number != GPU_TIMER_NONE) {
        timer->pairs[number].empty = true;
    }
    return number;
}

static int pair_of(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                   struct gpu_timer_estimate *estimate, const struct gpu_timer_charge *charge,
                   uint64_t now) {
    int number = take_pair(timer);
    if (number != GPU_TIMER_NONE) {
        struct gpu_timer_pair *pair = &timer->pairs[number];
        struct gpu_timer_estimate *function = gpu_timer_keys_function(keys, estimate->key.function);
        pair->key = estimate->key;
        pair->threads = estimate->threads;
        pair->charge = *charge;
        pair->at = now;
        pair->unknown = function->measured == 0;
        timer->unknown += pair->unknown;
        function->pending++;
        pair->charged_until = timer->charged_ns;
        timer->due_ns = timer->charged_ns + draw(timer, PAIR_EVERY_NS);
        timer->paired_at = now;
    }
    return number;
}

static uint64_t later(uint64_t one, uint64_t other) { return one > other ? one : other; }

/* Puts the work behind that of its stream: returns the time by which the context is busy longer. */
static uint64_t extend(struct gpu_timer *timer, struct gpu_timer_stream *stream, uint64_t now,
                       uint64_t ns) {
    uint64_t before = later(timer->busy_until, now);
    stream->busy_until = later(stream->busy_until, now) + ns;
    timer->busy_until = later(before, stream->busy_until);
    return timer->busy_until - before;
}

void gpu_timer_launch(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_work *work, struct gpu_timer_estimate *estimate,
                      uint64_t estimated_ns, uint64_t now, struct gpu_timer_launch *launch) {
    struct gpu_timer_stream *stream = find_stream(timer, stream_id(work), now);
    *launch = (struct gpu_timer_launch){
        .charge = {.stream = (int)(stream - timer->streams),
                   .id = stream->id,
                   .estimated_ns = estimated_ns,
                   .charged_ns = extend(timer, stream, now, estimated_ns)},
        .pair = GPU_TIMER_NONE,
        .alone = atomic_fetch_add(&stream->under_way, 1) <= 0,
        .number = ++stream->launches};
    timer->charged_ns += launch->charge.charged_ns;
    if (is_due(timer, estimate, now)) {
        launch->pair = pair_of(timer, keys, estimate, &launch->charge, now);
    }
}

void gpu_timer_launched(struct gpu_timer *timer, const struct gpu_timer_launch *launch) {
    atomic_fetch_sub(&timer->streams[launch->charge.stream].under_way, 1);
}

/* The launch took so much more than its estimate: returns how much of that is charged. What hid
 * behind others' work is no part of it, unless its stream is now busy longest. */
static int64_t correct(struct gpu_timer *timer, const struct gpu_timer_charge *charge,
                       int64_t more_ns) {
    struct gpu_timer_stream *stream = &timer->streams[charge->stream];
    uint64_t before = timer->busy_until;
    double part =
        charge->estimated_ns == 0 ? 1 : (double)charge->charged_ns / (double)charge->estimated_ns;
    timer->busy_until += (uint64_t)(int64_t)((double)more_ns * part);
    if (stream->id == charge->id) {
        stream->busy_until += (uint64_t)more_ns;
    }
    for (int i = 0; i < GPU_TIMER_STREAMS; i++) {
        timer->busy_until = later(timer->busy_until, timer->streams[i].busy_until);
    }
    return (int64_t)(timer->busy_until - before);
}

void gpu_timer_cancel(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_launch *launch) {
    correct(timer, &launch->charge, -(int64_t)launch->charge.estimated_ns);
    timer->charged_ns -= launch->charge.charged_ns;
    if (launch->pair != GPU_TIMER_NONE) {
        gpu_timer_drop(timer, keys, launch->pair);
    }
}

void gpu_timer_drop(struct gpu_timer *timer, struct gpu_timer_keys *keys, int number) {
    struct gpu_timer_pair *pair = &timer->pairs[number];
    if (!pair->empty) {
        struct gpu_timer_estimate *function = gpu_timer_keys_function(keys, pair->key.function);
        function->pending -= function->pending != 0;
    }
    timer->unknown -= pair->unknown;
    pair->state = GPU_TIMER_FREE;
    timer->in_use--;
}

static void learn_empty(struct gpu_timer *timer, int64_t ns) {
    if (ns <= 0 || ns > EMPTY_MAX_NS) {
        return; /* a neighbour's slice lay in between */
    }
    if (timer->empties == 0 || (uint64_t)ns < timer->empty_ns) {
        timer->empty_ns = (uint64_t)ns;
    }
    timer->empties++;
}

/* The launch of a pair, whose events lie so far apart: returns what it took. */
static uint64_t learn(struct gpu_timer_keys *keys, const struct gpu_timer_pair *pair,
                      uint64_t span_ns, struct gpu_timer_sharing sharing) {
    struct gpu_timer_estimate *estimate = gpu_timer_keys_find(keys, pair->key, pair->threads);
    /* A doubtful span is the most that it took, unless time of the host is taken off. */
    bool tells = !pair->doubtful || (pair->idle_ns == 0 && span_ns < estimate->span_ns);
    if (!tells && estimate->measured != 0) {
        span_ns = estimate->span_ns;
    }
    uint64_t own = gpu_timer_estimate_learn(estimate, span_ns, sharing.others);
    gpu_timer_function_learn(gpu_timer_keys_function(keys, pair->key.function), pair->threads, own);
    return gpu_timer_corrected_ns(own, span_ns, sharing.factor);
}

void gpu_timer_settle(struct gpu_timer *timer, struct gpu_timer_keys *keys, int number,
                      int64_t span_ns, struct gpu_timer_sharing sharing,
                      struct gpu_timer_bill *bill) {
    const struct gpu_timer_pair *pair = &timer->pairs[number];
    if (pair->empty) {
        learn_empty(timer, pair->doubtful ? 0 : span_ns);
    } else {
        /* While the card waited for the host, the first event's own time passed, too. */
        uint64_t spare = pair->idle_ns != 0 ? pair->idle_ns : timer->empty_ns;
        int64_t net = span_ns - (int64_t)spare;
        int64_t took = (int64_t)learn(keys, pair, net > 0 ? (uint64_t)net : 0, sharing);
        int64_t more = correct(timer, &pair->charge, took - (int64_t)pair->charge.estimated_ns);
        uint64_t until = later(pair->charged_until, timer->settled_ns);
        bill->charge_ns += more;
        bill->busy_ns += more + (int64_t)(until - timer->settled_ns);
        timer->settled_ns = until;
    }
    gpu_timer_drop(timer, keys, number);
}

uint64_t gpu_timer_open_ns(const struct gpu_timer *timer, uint64_t now) {
    uint64_t open = 0;
    for (int i = 0; i < GPU_TIMER_PAIRS; i++) {
        const struct gpu_timer_pair *pair = &timer->pairs[i];
        if (pair->state != GPU_TIMER_FREE && pair->unknown && pair->at < now) {
            uint64_t since = now - pair->at;
            open += since < GPU_TIMER_UNKNOWN_NS ? since : GPU_TIMER_UNKNOWN_NS;
        }
    }
    return open;
}
