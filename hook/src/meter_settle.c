/* What a pair of events that has passed says. */
#include <stddef.h>

#include "clock.h"
#include "meter.h"

/* What streams that take turns may settle for time that another's pair has passed already. */
#define ALLOWANCE_MAX_NS ((int64_t)(5 * NS_PER_MS))

/* More no driver takes between two events. */
#define EMPTY_MAX_NS ((int64_t)(10 * NS_PER_US))

static int64_t lesser(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t greater(int64_t one, int64_t other) { return one > other ? one : other; }

/* The time between the events, without what the pair itself and the host's way to the launch
 * took. */
static int64_t net_span(const struct meter *meter, const struct meter_sample *sample,
                        int64_t span_ns) {
    int64_t gap = sample->queued ? 0 : (int64_t)sample->gap_ns;
    int64_t empty = sample->planned == 0 ? 0 : (int64_t)meter->empty_ns;
    return greater(0, span_ns - gap - empty);
}

static void learn_empty_pair(struct meter *meter, int64_t net) {
    if (net > EMPTY_MAX_NS) {
        return; /* a neighbour's slice lay in between */
    }
    if (meter->empty_ns == 0 || (uint64_t)net < meter->empty_ns) {
        meter->empty_ns = (uint64_t)net;
    }
}

/* The card's clock doesn't run faster for several streams: at most as much as it has advanced with
 * something to do since this stream's last pair, and that others haven't settled. What one stream
 * settles pair by pair lies one after the other. */
static int64_t allow(struct meter *meter, const struct meter_stream *stream,
                     const struct meter_sample *sample, int64_t clock_ns, int64_t ns) {
    int64_t advanced = ns;
    if (meter->settled_until != 0) {
        int64_t idle = (int64_t)(sample->idle_total_ns - meter->settled_idle_ns);
        advanced = greater(0, clock_ns - meter->settled_until - greater(0, idle));
    }
    int64_t allowed = advanced + meter->allowance_ns;
    if (meter->settled_stream == sample->stream) {
        allowed = greater(allowed, ns);
    }
    if (stream->placed) {
        allowed = lesser(allowed, clock_ns - stream->passed_ns);
    }
    int64_t settled = lesser(ns, greater(0, allowed));
    meter->allowance_ns =
        lesser(ALLOWANCE_MAX_NS, greater(0, advanced + meter->allowance_ns - settled));
    if (clock_ns > meter->settled_until) {
        meter->settled_stream = sample->stream;
        meter->settled_until = clock_ns;
        meter->settled_idle_ns = sample->idle_total_ns;
    }
    return settled;
}

/* What all launches of the stream since its last pair took. */
static int64_t total_of(const struct meter_stream *stream, const struct meter_sample *sample,
                        const struct meter_passed *passed, int64_t measured, uint32_t others) {
    int64_t total = (int64_t)(sample->unsettled_ns - sample->charged_ns) + measured;
    if (others == 0 && sample->queued && stream->placed) {
        /* It never ran dry but while the host had launched nothing: then it ran all the time. */
        int64_t since = passed->clock_ns - stream->passed_ns - (int64_t)sample->idle_ns;
        total = greater(total, since);
    }
    return total;
}

/* Whether a pair says how long its launches took: `net`, from here on without others'. Of the first
 * of their kind anything is better than nothing. */
static bool tells(const struct meter_sample *sample, const struct meter_estimate *estimate,
                  int64_t *net) {
    if (!sample->mixed || estimate->measured == 0) {
        return true;
    }
    *net -= (int64_t)(sample->others_ns + (sample->queued ? sample->gap_ns : 0));
    return *net > (int64_t)sample->charged_ns;
}

/* The launches between the events: returns what they took, and adds what the correction changes. */
static int64_t measure(struct meter_keys *keys, const struct meter_sample *sample, int64_t net,
                       struct meter_company company, int64_t *corrected) {
    struct meter_estimate *estimate = meter_keys_find(keys, sample->key, sample->threads);
    if (!tells(sample, estimate, &net)) {
        double charged = (double)sample->charged_ns; /* stands, and has the factor in it */
        *corrected = (int64_t)(charged - charged / company.factor);
        return (int64_t)sample->charged_ns;
    }
    uint64_t span = (uint64_t)net / sample->launches;
    uint64_t own = meter_estimate_learn(estimate, span, company.others);
    meter_keys_learn_function(keys, sample->key.function, sample->threads, own);
    uint64_t told = meter_corrected_ns(own, span, company.factor);
    *corrected = (int64_t)(told * sample->launches) - (int64_t)(own * sample->launches);
    return (int64_t)(told * sample->launches);
}

static void settle(struct meter *meter, struct meter_keys *keys, const struct meter_passed *passed,
                   int64_t net, struct meter_company company, struct meter_bill *bill) {
    const struct meter_sample *sample = &meter->samples[passed->sample];
    struct meter_stream *stream = &meter->streams[sample->stream];
    struct meter_stream unknown = {.placed = false};
    bool current = stream->epoch == sample->epoch;
    int64_t charged = (int64_t)sample->unsettled_ns, corrected;
    int64_t measured = measure(keys, sample, net, company, &corrected);
    stream = current ? stream : &unknown;
    int64_t found = total_of(stream, sample, passed, measured, company.others);
    int64_t total = allow(meter, stream, sample, passed->clock_ns, found);
    stream->placed = true;
    stream->passed_ns = passed->clock_ns;
    bill->charge_ns += total - charged;
    bill->busy_ns += total - charged; /* meter_drop adds what was charged */
    double raw = (double)(charged - (int64_t)sample->charged_ns) / company.factor +
                 (double)(measured - corrected);
    bill->raw_ns += (found > 0 ? (int64_t)(raw * (double)total / (double)found) : 0) - charged;
}

void meter_settle(struct meter *meter, struct meter_keys *keys, const struct meter_passed *passed,
                  struct meter_company company, struct meter_bill *bill) {
    const struct meter_sample *sample = &meter->samples[passed->sample];
    int64_t net = net_span(meter, sample, passed->span_ns);
    if (sample->planned == 0) {
        learn_empty_pair(meter, net);
    } else {
        settle(meter, keys, passed, net, company, bill);
    }
    meter_drop(meter, keys, passed->sample, bill);
}
