#include "limiter/gpu_timer.h"

#include <stddef.h>
#include <string.h>

#include "shared/clock.h"

/* A pair costs the program some 4 us of processor time; 1 % of the time between two pairs. */
#define SAMPLE_EVERY_NS (500 * NS_PER_US)
/* Estimates may be wrong by much, and then that was too seldom. */
#define SAMPLE_AT_LEAST_NS (5 * NS_PER_MS)
/* A run of short launches is measured as one: events resolve half a microsecond. */
#define RUN_NS (200 * NS_PER_US)
#define SHORT_NS (50 * NS_PER_US)
/* A stream that seems to have been idle for this long is asked whether it was. */
#define DOUBT_NS (50 * NS_PER_US)
enum { RUN_LAUNCHES = 32, MEASURE_NEW = 3 };

uint64_t meter_estimate_ns(struct meter_keys *keys, const struct meter_work *work, double factor) {
    const struct meter_estimate *estimate = meter_keys_find(keys, work->key, work->threads);
    if (estimate->measured == 0) {
        return meter_keys_guess_ns(keys, work->key.function, work->threads);
    }
    return meter_corrected_ns(estimate->mean_ns, estimate->span_ns, factor);
}

static struct meter_estimate *estimate_of(struct meter_keys *keys,
                                          const struct meter_sample *sample) {
    return meter_keys_find(keys, sample->key, sample->threads);
}

static void release(struct meter *meter, struct meter_keys *keys, int number) {
    struct meter_sample *sample = &meter->samples[number];
    struct meter_stream *stream = &meter->streams[sample->stream];
    if (stream->epoch == sample->epoch && stream->open == number) {
        stream->open = METER_NONE;
    }
    if (sample->planned != 0) {
        struct meter_estimate *estimate = estimate_of(keys, sample);
        estimate->pending -= estimate->pending != 0;
    }
    sample->state = METER_FREE;
    meter->in_use--;
}

/* A pair whose first event is of no use any more; what is on the stream waits for the next. */
static void abandon(struct meter *meter, struct meter_keys *keys, int number) {
    if (meter->samples[number].state == METER_OPEN) {
        release(meter, keys, number);
    }
}

static struct meter_stream *find_stream(struct meter *meter, struct meter_keys *keys,
                                        const void *id, uint64_t now) {
    struct meter_stream *oldest = meter->streams;
    for (int i = 0; i < METER_STREAMS; i++) {
        struct meter_stream *stream = &meter->streams[i];
        if (stream->id == id) {
            stream->used_at = now;
            return stream;
        }
        oldest = stream->used_at < oldest->used_at ? stream : oldest;
    }
    if (oldest->id != NULL && oldest->open != METER_NONE) {
        abandon(meter, keys, oldest->open);
    }
    *oldest = (struct meter_stream){
        .id = id, .epoch = oldest->epoch + 1, .used_at = now, .open = METER_NONE};
    return oldest;
}

/* The legacy default stream is one, the per-thread ones are the threads'. */
static const void *stream_id(const struct meter_work *work) {
    static const char legacy_default;
    static __thread char own_default;
    if (work->stream != NULL) {
        return work->stream;
    }
    return work->per_thread ? &own_default : &legacy_default;
}

/* Half to one and a half times the mean, so that no program's rhythm hides in the gaps. */
static uint64_t draw(struct meter *meter, uint64_t mean) {
    meter->random = meter->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return mean / 2 + (meter->random >> 33) * mean / (UINT64_C(1) << 31);
}

static bool is_due(const struct meter *meter, const struct meter_estimate *estimate, uint64_t now) {
    if (estimate->measured + estimate->pending < MEASURE_NEW) {
        return true;
    }
    return meter->charged_ns >= meter->next_ns || now - meter->sampled_at >= SAMPLE_AT_LEAST_NS;
}

static uint32_t plan_run(const struct meter_stream *stream, const struct meter_estimate *estimate,
                         uint64_t now) {
    uint64_t each = estimate->mean_ns;
    bool again = stream->last.function == estimate->key.function &&
                 stream->last.shape == estimate->key.shape;
    if (!again || estimate->measured < MEASURE_NEW || each >= SHORT_NS ||
        now >= stream->busy_until) {
        return 1; /* between launches that each find the stream idle lies idle time */
    }
    uint64_t run = RUN_NS / (each + 1);
    return run < 1 ? 1 : run > RUN_LAUNCHES ? RUN_LAUNCHES : (uint32_t)run;
}

/* A free sample, or else one that waits for more launches on its stream, which may never come. */
static int spare_sample(const struct meter *meter) {
    int spare = METER_NONE;
    for (int i = 0; i < METER_SAMPLES; i++) {
        const struct meter_sample *sample = &meter->samples[i];
        if (sample->state == METER_FREE) {
            return i;
        }
        spare = sample->state == METER_OPEN && sample->begun ? i : spare;
    }
    return spare;
}

bool meter_can_measure(const struct meter *meter) { return spare_sample(meter) != METER_NONE; }

/* A sample of the stream's, with the events that it had. */
static int take_sample(struct meter *meter, struct meter_keys *keys, int stream) {
    int number = spare_sample(meter);
    if (number != METER_NONE) {
        struct meter_sample *sample = &meter->samples[number];
        abandon(meter, keys, number);
        *sample = (struct meter_sample){.state = METER_CLOSING,
                                        .stream = stream,
                                        .epoch = meter->streams[stream].epoch,
                                        .begin = sample->begin,
                                        .end = sample->end};
        meter->in_use++;
    }
    return number;
}

static int open_sample(struct meter *meter, struct meter_keys *keys, int place,
                       struct meter_estimate *estimate, uint64_t now) {
    struct meter_stream *stream = &meter->streams[place];
    int number = take_sample(meter, keys, place);
    if (number != METER_NONE) {
        struct meter_sample *sample = &meter->samples[number];
        sample->state = METER_OPEN;
        sample->key = estimate->key;
        sample->threads = estimate->threads;
        sample->planned = plan_run(stream, estimate, now);
        estimate->pending++;
        stream->open = number;
        meter->charged_ns = 0;
        meter->next_ns = draw(meter, SAMPLE_EVERY_NS);
        meter->sampled_at = now;
    }
    return number;
}

/* The last launch of a pair is made: what is on the stream so far is what the pair settles. */
static void close_sample(struct meter *meter, struct meter_stream *stream,
                         struct meter_sample *sample) {
    sample->unsettled_ns = stream->unsettled_ns;
    sample->idle_ns = stream->idle_ns;
    sample->late_ns = stream->late_ns;
    sample->idle_total_ns = meter->idle_total_ns;
    stream->unsettled_ns = 0;
    stream->idle_ns = 0;
    stream->late_ns = 0;
    stream->open = METER_NONE;
    sample->state = METER_CLOSING;
}

/* What becomes of the open pair when other work comes onto its stream, or the same after a while.
 * An event tells the end of a launch only while the stream is busy with it. */
static void interrupt(struct meter *meter, struct meter_keys *keys, struct meter_stream *stream,
                      uint64_t now, struct meter_turn *turn) {
    int open = stream->open;
    struct meter_sample *sample = &meter->samples[open];
    if (sample->begun && now < stream->busy_until) {
        close_sample(meter, stream, sample);
        turn->stale = open;
    } else {
        abandon(meter, keys, open);
    }
}

/* Whether one more launch belongs to the open pair: the same work, on a stream that isn't idle. */
static bool goes_on(const struct meter *meter, const struct meter_stream *stream,
                    struct meter_key key, uint64_t now) {
    const struct meter_sample *sample = &meter->samples[stream->open];
    return sample->key.function == key.function && sample->key.shape == key.shape &&
           now < stream->busy_until;
}

/* Work that begins when what is queued is done: returns for how long there was none. */
static uint64_t extend(uint64_t *busy_until, uint64_t now, uint64_t ns) {
    uint64_t begins = now > *busy_until ? now : *busy_until;
    uint64_t idle = *busy_until == 0 ? 0 : begins - *busy_until;
    *busy_until = begins + ns;
    return idle;
}

/* The same of the whole context, whose streams run at the same time. */
static uint64_t reach(uint64_t *busy_until, uint64_t now, uint64_t until) {
    uint64_t idle = *busy_until != 0 && now > *busy_until ? now - *busy_until : 0;
    *busy_until = until > *busy_until ? until : *busy_until;
    return idle;
}

void meter_launch(struct meter *meter, struct meter_keys *keys, const struct meter_work *work,
                  uint64_t charged_ns, uint64_t now, struct meter_turn *turn) {
    struct meter_estimate *estimate = meter_keys_find(keys, work->key, work->threads);
    struct meter_stream *stream = find_stream(meter, keys, stream_id(work), now);
    int place = (int)(stream - meter->streams);
    *turn = (struct meter_turn){.stream = place,
                                .epoch = stream->epoch,
                                .empty = METER_NONE,
                                .begins = METER_NONE,
                                .ends = METER_NONE,
                                .stale = METER_NONE,
                                .charged_ns = charged_ns};
    if (stream->open != METER_NONE && !goes_on(meter, stream, work->key, now)) {
        interrupt(meter, keys, stream, now, turn);
    }
    if (stream->open == METER_NONE && is_due(meter, estimate, now)) {
        if (meter->empty_pairs < METER_EMPTY_PAIRS) {
            turn->empty = take_sample(meter, keys, place);
            meter->empty_pairs += turn->empty != METER_NONE;
        }
        turn->begins = open_sample(meter, keys, place, estimate, now);
    }
    uint64_t idle = extend(&stream->busy_until, now, charged_ns);
    turn->due_at = stream->busy_until - charged_ns;
    turn->after_late = stream->late;
    stream->late = false;
    turn->doubt_ns = idle >= DOUBT_NS ? idle : 0;
    stream->idle_ns += idle;
    meter->idle_total_ns += reach(&meter->busy_until, now, stream->busy_until);
    stream->unsettled_ns += charged_ns;
    stream->last = work->key;
    meter->charged_ns += charged_ns;
    if (stream->open != METER_NONE) {
        struct meter_sample *sample = &meter->samples[stream->open];
        sample->launches++;
        sample->charged_ns += charged_ns;
        sample->last_at = now;
        if (sample->launches >= sample->planned) {
            turn->ends = stream->open;
            close_sample(meter, stream, sample);
        }
    }
    meter_set_out(meter, turn);
}

bool meter_is_late(const struct meter_turn *turn, uint64_t now) {
    return now > turn->due_at + METER_LATE_NS;
}

void meter_came_late(struct meter *meter, const struct meter_turn *turn, uint64_t now) {
    struct meter_stream *stream = &meter->streams[turn->stream];
    if (stream->epoch == turn->epoch && !meter_waits(meter, turn)) {
        *(turn->ends == METER_NONE ? &stream->late_ns : &meter->samples[turn->ends].late_ns) +=
            now - turn->due_at;
        stream->late = true;
    }
}

void meter_cancel(struct meter *meter, struct meter_keys *keys, const struct meter_turn *turn) {
    struct meter_stream *stream = &meter->streams[turn->stream];
    struct meter_bill ignored = {.busy_ns = 0};
    if (turn->ends != METER_NONE) {
        meter_drop(meter, keys, turn->ends, &ignored);
    } else if (stream->epoch == turn->epoch && stream->open != METER_NONE) {
        abandon(meter, keys, stream->open);
    }
    if (stream->epoch == turn->epoch && stream->unsettled_ns >= turn->charged_ns) {
        stream->unsettled_ns -= turn->charged_ns;
    }
}

void meter_drop(struct meter *meter, struct meter_keys *keys, int number, struct meter_bill *bill) {
    bill->busy_ns += (int64_t)meter->samples[number].unsettled_ns;
    bill->raw_ns += (int64_t)meter->samples[number].unsettled_ns;
    release(meter, keys, number);
}
