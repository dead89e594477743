#include "limiter/gpu_timer_settle.h"

#include <stddef.h>
#include <string.h>

#include "shared/clock.h"

/* No driver takes more between two events. */
#define EMPTY_MAX_NS ((int64_t)(10 * NS_PER_US))

static int64_t lesser(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t greater(int64_t one, int64_t other) { return one > other ? one : other; }

/* The time between the events, without that of the pair itself and of the host's way to the
 * launch. */
static int64_t net_span(const struct gpu_timer *timer, const struct gpu_timer_sample *sample,
                        int64_t span_ns) {
    int64_t gap = sample->queued ? 0 : (int64_t)sample->gap_ns;
    int64_t empty = sample->planned == 0 ? 0 : (int64_t)timer->empty_ns;
    return greater(0, span_ns - gap - empty);
}

static void learn_empty_pair(struct gpu_timer *timer, int64_t net) {
    if (net > EMPTY_MAX_NS) {
        return; /* a neighbour's slice lay in between */
    }
    if (timer->empty_ns == 0 || (uint64_t)net < timer->empty_ns) {
        timer->empty_ns = (uint64_t)net;
    }
}

/* The most of a hole that lies between two moments. */
static int64_t part_of(const struct gpu_timer_hole *hole, int64_t from, int64_t until) {
    int64_t after = greater(0, hole->until - until);
    return greater(0, lesser(hole->ns - after, lesser(hole->until, until) - from));
}

/* Settles up to `ns` of the holes between two moments, the latest first: returns how much. Where
 * the card surely had work, the estimates don't count. */
static int64_t fill_holes(struct gpu_timer *timer, int64_t from, int64_t until, int64_t ns,
                          bool sure) {
    int64_t filled = 0;
    for (unsigned i = timer->hole_count; i-- > 0;) {
        struct gpu_timer_hole *hole = &timer->holes[i];
        int64_t most = sure ? hole->ns : hole->ns - hole->idle_ns;
        int64_t part = lesser(lesser(ns - filled, most), part_of(hole, from, until));
        hole->ns -= part;
        hole->idle_ns = lesser(hole->idle_ns, hole->ns);
        filled += part;
    }
    return filled;
}

/* The two oldest become one where there are too many. */
static void leave_hole(struct gpu_timer *timer, struct gpu_timer_hole left) {
    struct gpu_timer_hole *holes = timer->holes;
    if (left.ns <= 0) {
        return;
    }
    while (timer->hole_count != 0 && holes[timer->hole_count - 1].ns == 0) {
        timer->hole_count--;
    }
    if (timer->hole_count == GPU_TIMER_HOLES) {
        holes[1].ns += holes[0].ns;
        holes[1].idle_ns += holes[0].idle_ns;
        timer->hole_count--;
        memmove(holes, holes + 1, timer->hole_count * sizeof *holes);
    }
    holes[timer->hole_count++] = left;
}

/* The card's clock doesn't run faster for several streams: a stream settles time since its own last
 * pair that no other has settled, and in which the card had work. The times that one stream settles
 * lie one after the other. The last `sure_ns` of it lie right before the pair's end. */
static int64_t allow(struct gpu_timer *timer, const struct gpu_timer_stream *stream,
                     const struct gpu_timer_sample *sample, int64_t clock_ns, int64_t ns,
                     int64_t sure_ns) {
    int64_t from = stream->placed ? stream->passed_ns : clock_ns - ns;
    int64_t most = greater(0, lesser(ns, clock_ns - from)), since = most, idle = 0;
    if (timer->settled_until != 0) {
        since = greater(0, clock_ns - timer->settled_until);
        idle = greater(0, (int64_t)(sample->idle_total_ns - timer->settled_idle_ns));
        idle = lesser(idle, greater(0, since - sure_ns));
    }
    int64_t settled = lesser(most, since - idle);
    leave_hole(timer, (struct gpu_timer_hole){
                          .until = clock_ns - settled, .ns = since - settled, .idle_ns = idle});
    int64_t sure = lesser(most, sure_ns) - settled;
    settled += fill_holes(timer, clock_ns - sure_ns, clock_ns, greater(0, sure), true);
    settled += fill_holes(timer, from, clock_ns, most - settled, false);
    if (timer->settled_stream == sample->stream) {
        settled = most;
    }
    if (clock_ns > timer->settled_until) {
        timer->settled_stream = sample->stream;
        timer->settled_until = clock_ns;
        timer->settled_idle_ns = sample->idle_total_ns;
    }
    return settled;
}

/* The time of all launches of the stream since its last pair. */
static int64_t total_of(const struct gpu_timer_stream *stream,
                        const struct gpu_timer_sample *sample,
                        const struct gpu_timer_passed *passed, int64_t measured, bool unsteady,
                        uint32_t others) {
    int64_t total = (int64_t)(sample->unsettled_ns - sample->charged_ns) + measured;
    if (others == 0 && sample->queued && stream->placed && unsteady) {
        /* The stream ran all the time, except while the host had no launch queued. */
        int64_t since =
            passed->clock_ns - stream->passed_ns - (int64_t)(sample->idle_ns + sample->late_ns);
        total = greater(total, since);
    }
    return total;
}

/* Of the times that the launches can have taken, the nearest to those before. */
static int64_t likely(const struct gpu_timer_sample *sample,
                      const struct gpu_timer_estimate *estimate, int64_t net) {
    if (sample->doubt_ns == 0) {
        return net;
    }
    int64_t most = net + (int64_t)(sample->queued ? 0 : sample->gap_ns);
    int64_t least = greater(0, net - (int64_t)(sample->queued ? sample->doubt_ns : 0));
    int64_t known = estimate->measured == 0 ? (int64_t)sample->charged_ns
                                            : (int64_t)(estimate->span_ns * sample->launches);
    return lesser(most, greater(least, known));
}

/* Whether a pair tells the time of its launches: `net`, from here on without others'. For the first
 * launches of a kind any time is better than none. */
static bool tells(const struct gpu_timer_sample *sample, const struct gpu_timer_estimate *estimate,
                  int64_t *net) {
    if (!sample->mixed || estimate->measured == 0) {
        *net = likely(sample, estimate, *net);
        return true;
    }
    int64_t gap = (int64_t)(sample->queued ? sample->gap_ns : 0);
    *net -= (int64_t)sample->others_ns + greater(gap, (int64_t)sample->doubt_ns);
    return *net > (int64_t)sample->charged_ns;
}

/* The launches between the events: returns their time, and adds the correction. */
static int64_t measure(struct gpu_timer_keys *keys, const struct gpu_timer_sample *sample,
                       int64_t net, struct gpu_timer_sharing sharing, int64_t *corrected) {
    struct gpu_timer_estimate *estimate = gpu_timer_keys_find(keys, sample->key, sample->threads);
    if (!tells(sample, estimate, &net)) {
        double charged = (double)sample->charged_ns; /* stands, and has the factor in it */
        *corrected = (int64_t)(charged - charged / sharing.factor);
        return (int64_t)sample->charged_ns;
    }
    uint64_t span = (uint64_t)net / sample->launches;
    uint64_t own = gpu_timer_estimate_learn(estimate, span, sharing.others);
    gpu_timer_keys_learn_function(keys, sample->key.function, sample->threads, own);
    uint64_t told = gpu_timer_corrected_ns(own, span, sharing.factor);
    *corrected = (int64_t)(told * sample->launches) - (int64_t)(own * sample->launches);
    return (int64_t)(told * sample->launches);
}

static void settle(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                   const struct gpu_timer_passed *passed, int64_t net,
                   struct gpu_timer_sharing sharing, struct gpu_timer_bill *bill) {
    const struct gpu_timer_sample *sample = &timer->samples[passed->sample];
    struct gpu_timer_stream *stream = &timer->streams[sample->stream];
    struct gpu_timer_stream unknown = {.placed = false};
    bool current = stream->epoch == sample->epoch;
    int64_t charged = (int64_t)sample->unsettled_ns, corrected;
    int64_t measured = measure(keys, sample, net, sharing, &corrected);
    stream = current ? stream : &unknown;
    bool unsteady =
        sample->unsteady || gpu_timer_keys_find(keys, sample->key, sample->threads)->unsteady != 0;
    int64_t found = total_of(stream, sample, passed, measured, unsteady, sharing.others);
    int64_t total = allow(timer, stream, sample, passed->clock_ns, found, lesser(measured, found));
    stream->placed = true;
    stream->passed_ns = passed->clock_ns;
    bill->charge_ns += total - charged;
    bill->busy_ns += total - charged; /* gpu_timer_drop adds the charge */
    double raw = (double)(charged - (int64_t)sample->charged_ns) / sharing.factor +
                 (double)(measured - corrected);
    bill->raw_ns += (found > 0 ? (int64_t)(raw * (double)total / (double)found) : 0) - charged;
}

uint64_t gpu_timer_open_ns(const struct gpu_timer *timer, uint64_t now) {
    uint64_t open = 0;
    for (int i = 0; i < GPU_TIMER_SAMPLES; i++) {
        const struct gpu_timer_sample *sample = &timer->samples[i];
        if (sample->state != GPU_TIMER_FREE && sample->unknown && sample->last_at < now) {
            open += (uint64_t)lesser((int64_t)(now - sample->last_at), GPU_TIMER_UNKNOWN_NS);
        }
    }
    return open;
}

void gpu_timer_settle(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_passed *passed, struct gpu_timer_sharing sharing,
                      struct gpu_timer_bill *bill) {
    const struct gpu_timer_sample *sample = &timer->samples[passed->sample];
    int64_t net = net_span(timer, sample, passed->span_ns);
    if (sample->planned == 0) {
        learn_empty_pair(timer, net);
    } else {
        settle(timer, keys, passed, net, sharing, bill);
    }
    gpu_timer_drop(timer, keys, passed->sample, bill);
}
