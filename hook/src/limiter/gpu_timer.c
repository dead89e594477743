#include "limiter/gpu_timer.h"

#include <stddef.h>
#include <string.h>

#include "limiter/gpu_timer_threads.h"
#include "shared/clock.h"

/* A pair costs the program some 4 us of processor time; 1 % of the time between two pairs. */
#define SAMPLE_EVERY_NS (500 * NS_PER_US)
/* Estimates may be wrong by much, and then that was too seldom. */
#define SAMPLE_AT_LEAST_NS (5 * NS_PER_MS)
/* A run of short launches is measured as one: events resolve half a microsecond. */
#define RUN_NS (200 * NS_PER_US)
#define SHORT_NS (50 * NS_PER_US)
/* After this long without work by the estimates, the driver is asked whether the stream was
 * idle. */
#define DOUBT_NS (50 * NS_PER_US)
enum { RUN_LAUNCHES = 32, MEASURE_NEW = 3 };

uint64_t gpu_timer_estimate_ns(struct gpu_timer_keys *keys, const struct gpu_timer_work *work,
                               double factor) {
    const struct gpu_timer_estimate *estimate = gpu_timer_keys_find(keys, work->key, work->threads);
    if (estimate->measured == 0) {
        return gpu_timer_keys_guess_ns(keys, work->key.function, work->threads);
    }
    return gpu_timer_corrected_ns(estimate->mean_ns, estimate->span_ns, factor);
}

static struct gpu_timer_estimate *estimate_of(struct gpu_timer_keys *keys,
                                              const struct gpu_timer_sample *sample) {
    return gpu_timer_keys_find(keys, sample->key, sample->threads);
}

static void release(struct gpu_timer *timer, struct gpu_timer_keys *keys, int number) {
    struct gpu_timer_sample *sample = &timer->samples[number];
    struct gpu_timer_stream *stream = &timer->streams[sample->stream];
    if (stream->epoch == sample->epoch && stream->open == number) {
        stream->open = GPU_TIMER_NONE;
    }
    if (sample->planned != 0) {
        struct gpu_timer_estimate *estimate = estimate_of(keys, sample);
        estimate->pending -= estimate->pending != 0;
    }
    timer->unknown -= sample->unknown;
    sample->state = GPU_TIMER_FREE;
    timer->in_use--;
}

/* A pair with a first event that is useless now; the stream's launches wait for the next pair. */
static void abandon(struct gpu_timer *timer, struct gpu_timer_keys *keys, int number) {
    if (timer->samples[number].state == GPU_TIMER_OPEN) {
        release(timer, keys, number);
    }
}

static struct gpu_timer_stream *find_stream(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                                            const void *id, uint64_t now) {
    struct gpu_timer_stream *oldest = timer->streams;
    for (int i = 0; i < GPU_TIMER_STREAMS; i++) {
        struct gpu_timer_stream *stream = &timer->streams[i];
        if (stream->id == id) {
            stream->used_at = now;
            return stream;
        }
        oldest = stream->used_at < oldest->used_at ? stream : oldest;
    }
    if (oldest->id != NULL && oldest->open != GPU_TIMER_NONE) {
        abandon(timer, keys, oldest->open);
    }
    *oldest = (struct gpu_timer_stream){
        .id = id, .epoch = oldest->epoch + 1, .used_at = now, .open = GPU_TIMER_NONE};
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
    if (estimate->measured + estimate->pending < MEASURE_NEW) {
        return true;
    }
    return timer->charged_ns >= timer->next_ns || now - timer->sampled_at >= SAMPLE_AT_LEAST_NS;
}

static uint32_t plan_run(const struct gpu_timer_stream *stream,
                         const struct gpu_timer_estimate *estimate, uint64_t now) {
    uint64_t each = estimate->mean_ns;
    bool again = stream->last.function == estimate->key.function &&
                 stream->last.shape == estimate->key.shape;
    if (!again || estimate->measured < MEASURE_NEW || each >= SHORT_NS ||
        now >= stream->busy_until) {
        return 1; /* there is idle time between launches that each find the stream idle */
    }
    uint64_t run = RUN_NS / (each + 1);
    return run < 1 ? 1 : run > RUN_LAUNCHES ? RUN_LAUNCHES : (uint32_t)run;
}

/* A free sample, or else one that waits for more launches on its stream, which may never come. */
static int spare_sample(const struct gpu_timer *timer) {
    int spare = GPU_TIMER_NONE;
    for (int i = 0; i < GPU_TIMER_SAMPLES; i++) {
        const struct gpu_timer_sample *sample = &timer->samples[i];
        if (sample->state == GPU_TIMER_FREE) {
            return i;
        }
        spare = sample->state == GPU_TIMER_OPEN && sample->begun ? i : spare;
    }
    return spare;
}

bool gpu_timer_can_measure(const struct gpu_timer *timer) {
    return spare_sample(timer) != GPU_TIMER_NONE;
}

/* A sample of the stream, with its former events. */
static int take_sample(struct gpu_timer *timer, struct gpu_timer_keys *keys, int stream) {
    int number = spare_sample(timer);
    if (number != GPU_TIMER_NONE) {
        struct gpu_timer_sample *sample = &timer->samples[number];
        abandon(timer, keys, number);
        *sample = (struct gpu_timer_sample){.state = GPU_TIMER_CLOSING,
                                            .stream = stream,
                                            .epoch = timer->streams[stream].epoch,
                                            .begin = sample->begin,
                                            .end = sample->end};
        timer->in_use++;
    }
    return number;
}

static int open_sample(struct gpu_timer *timer, struct gpu_timer_keys *keys, int place,
                       struct gpu_timer_estimate *estimate, uint64_t now) {
    struct gpu_timer_stream *stream = &timer->streams[place];
    int number = take_sample(timer, keys, place);
    if (number != GPU_TIMER_NONE) {
        struct gpu_timer_sample *sample = &timer->samples[number];
        sample->state = GPU_TIMER_OPEN;
        sample->key = estimate->key;
        sample->threads = estimate->threads;
        sample->planned = plan_run(stream, estimate, now);
        sample->unknown = estimate->measured == 0 &&
                          gpu_timer_keys_guess_ns(keys, sample->key.function, sample->threads) == 0;
        timer->unknown += sample->unknown;
        estimate->pending++;
        stream->open = number;
        timer->charged_ns = 0;
        timer->next_ns = draw(timer, SAMPLE_EVERY_NS);
        timer->sampled_at = now;
    }
    return number;
}

/* The last launch of a pair is made: the pair settles the stream's launches so far. */
static void close_sample(struct gpu_timer *timer, struct gpu_timer_stream *stream,
                         struct gpu_timer_sample *sample) {
    sample->unsettled_ns = stream->unsettled_ns;
    sample->idle_ns = stream->idle_ns;
    sample->late_ns = stream->late_ns;
    sample->unsteady = stream->unsteady;
    sample->idle_total_ns = timer->idle_total_ns;
    stream->unsettled_ns = 0;
    stream->idle_ns = 0;
    stream->late_ns = 0;
    stream->unsteady = false;
    stream->open = GPU_TIMER_NONE;
    sample->state = GPU_TIMER_CLOSING;
}

/* The fate of the open pair when other work comes onto its stream, or the same after a while. An
 * event tells the end of a launch only while the stream is busy with it. */
static void interrupt(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      struct gpu_timer_stream *stream, uint64_t now,
                      struct gpu_timer_launch *launch) {
    int open = stream->open;
    struct gpu_timer_sample *sample = &timer->samples[open];
    if (sample->begun && now < stream->busy_until) {
        close_sample(timer, stream, sample);
        launch->stale = open;
    } else {
        abandon(timer, keys, open);
    }
}

/* Whether one more launch belongs to the open pair: the same work, on a stream that isn't idle. */
static bool goes_on(const struct gpu_timer *timer, const struct gpu_timer_stream *stream,
                    struct gpu_timer_key key, uint64_t now) {
    const struct gpu_timer_sample *sample = &timer->samples[stream->open];
    return sample->key.function == key.function && sample->key.shape == key.shape &&
           now < stream->busy_until;
}

/* Work that begins after the queued work: returns how long the stream was idle. */
static uint64_t extend(uint64_t *busy_until, uint64_t now, uint64_t ns) {
    uint64_t begins = now > *busy_until ? now : *busy_until;
    uint64_t idle = *busy_until == 0 ? 0 : begins - *busy_until;
    *busy_until = begins + ns;
    return idle;
}

/* The same for the whole context: its streams run at the same time. */
static uint64_t reach(uint64_t *busy_until, uint64_t now, uint64_t until) {
    uint64_t idle = *busy_until != 0 && now > *busy_until ? now - *busy_until : 0;
    *busy_until = until > *busy_until ? until : *busy_until;
    return idle;
}

void gpu_timer_launch(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_work *work, uint64_t charged_ns, uint64_t now,
                      struct gpu_timer_launch *launch) {
    struct gpu_timer_estimate *estimate = gpu_timer_keys_find(keys, work->key, work->threads);
    struct gpu_timer_stream *stream = find_stream(timer, keys, stream_id(work), now);
    int place = (int)(stream - timer->streams);
    *launch = (struct gpu_timer_launch){.stream = place,
                                        .epoch = stream->epoch,
                                        .empty = GPU_TIMER_NONE,
                                        .begins = GPU_TIMER_NONE,
                                        .ends = GPU_TIMER_NONE,
                                        .stale = GPU_TIMER_NONE,
                                        .charged_ns = charged_ns};
    if (stream->open != GPU_TIMER_NONE && !goes_on(timer, stream, work->key, now)) {
        interrupt(timer, keys, stream, now, launch);
    }
    if (stream->open == GPU_TIMER_NONE && is_due(timer, estimate, now)) {
        if (timer->empty_pairs < GPU_TIMER_EMPTY_PAIRS) {
            launch->empty = take_sample(timer, keys, place);
            timer->empty_pairs += launch->empty != GPU_TIMER_NONE;
        }
        launch->begins = open_sample(timer, keys, place, estimate, now);
    }
    uint64_t idle = extend(&stream->busy_until, now, charged_ns);
    launch->due_at = stream->busy_until - charged_ns;
    launch->after_late = stream->late;
    stream->late = false;
    launch->doubt_ns = idle >= DOUBT_NS ? idle : 0;
    stream->idle_ns += idle;
    timer->idle_total_ns += reach(&timer->busy_until, now, stream->busy_until);
    stream->unsettled_ns += charged_ns;
    stream->unsteady = stream->unsteady || estimate->unsteady != 0;
    stream->last = work->key;
    timer->charged_ns += charged_ns;
    if (stream->open != GPU_TIMER_NONE) {
        struct gpu_timer_sample *sample = &timer->samples[stream->open];
        sample->launches++;
        sample->charged_ns += charged_ns;
        sample->last_at = now;
        if (sample->launches >= sample->planned) {
            launch->ends = stream->open;
            close_sample(timer, stream, sample);
        }
    }
    gpu_timer_set_out(timer, launch);
}

bool gpu_timer_is_late(const struct gpu_timer_launch *launch, uint64_t now) {
    return now > launch->due_at + GPU_TIMER_LATE_NS;
}

void gpu_timer_came_late(struct gpu_timer *timer, const struct gpu_timer_launch *launch,
                         uint64_t now) {
    struct gpu_timer_stream *stream = &timer->streams[launch->stream];
    if (stream->epoch == launch->epoch && !gpu_timer_waits(timer, launch)) {
        *(launch->ends == GPU_TIMER_NONE ? &stream->late_ns
                                         : &timer->samples[launch->ends].late_ns) +=
            now - launch->due_at;
        stream->late = true;
    }
}

void gpu_timer_cancel(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_launch *launch) {
    struct gpu_timer_stream *stream = &timer->streams[launch->stream];
    struct gpu_timer_bill ignored = {.busy_ns = 0};
    if (launch->ends != GPU_TIMER_NONE) {
        gpu_timer_drop(timer, keys, launch->ends, &ignored);
    } else if (stream->epoch == launch->epoch && stream->open != GPU_TIMER_NONE) {
        abandon(timer, keys, stream->open);
    }
    if (stream->epoch == launch->epoch && stream->unsettled_ns >= launch->charged_ns) {
        stream->unsettled_ns -= launch->charged_ns;
    }
}

void gpu_timer_drop(struct gpu_timer *timer, struct gpu_timer_keys *keys, int number,
                    struct gpu_timer_bill *bill) {
    bill->busy_ns += (int64_t)timer->samples[number].unsettled_ns;
    bill->raw_ns += (int64_t)timer->samples[number].unsettled_ns;
    release(timer, keys, number);
}
