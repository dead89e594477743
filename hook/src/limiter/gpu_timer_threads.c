/*
 * Several threads that launch on one stream. From its charge until the driver returns, a launch of
 * one is under way, and those of the others may come before or after it: into a pair of events too,
 * which then says how long they took together.
 */
#include "limiter/gpu_timer.h"

/* Both events are recorded. */
static bool is_whole(const struct meter_sample *sample) {
    return sample->state == METER_PENDING || sample->state == METER_POLLED;
}

static bool is_recorded(const struct meter_sample *sample) {
    return is_whole(sample) || (sample->state == METER_OPEN && sample->begun);
}

void meter_set_out(struct meter *meter, struct meter_turn *turn) {
    struct meter_under_way *under_way = &meter->under_way[turn->stream];
    int64_t others_ns = atomic_fetch_add(&under_way->charged_ns, (int64_t)turn->charged_ns);
    turn->alone = others_ns <= 0; /* less: its context was ended during a launch */
    turn->number = ++under_way->so_far;
    for (int i = 0; !turn->alone && i < METER_SAMPLES; i++) {
        struct meter_sample *sample = &meter->samples[i];
        bool own = i == turn->begins || i == turn->ends || i == turn->stale;
        if (sample->stream == turn->stream && !is_recorded(sample)) {
            sample->mixed = true;
            sample->others_ns += own ? (uint64_t)others_ns : turn->charged_ns;
        }
    }
}

void meter_launched(struct meter *meter, const struct meter_turn *turn) {
    atomic_fetch_sub(&meter->under_way[turn->stream].charged_ns, (int64_t)turn->charged_ns);
}

bool meter_waits(const struct meter *meter, const struct meter_turn *turn) {
    for (int i = 0; i < METER_SAMPLES; i++) {
        const struct meter_sample *sample = &meter->samples[i];
        if (is_whole(sample) && sample->stream == turn->stream && sample->epoch == turn->epoch) {
            return true;
        }
    }
    return false;
}

void meter_was_busy(struct meter *meter, const struct meter_turn *turn) {
    struct meter_stream *stream = &meter->streams[turn->stream];
    uint64_t *idle_ns =
        turn->ends == METER_NONE ? &stream->idle_ns : &meter->samples[turn->ends].idle_ns;
    /* Else it may be another thread's launch, just made, that it is busy with, or the one before,
     * made late. */
    bool own =
        turn->alone && !turn->after_late && turn->number == meter->under_way[turn->stream].so_far;
    bool sure = own || meter_waits(meter, turn);
    if (sure && stream->epoch == turn->epoch) {
        *idle_ns -= *idle_ns < turn->doubt_ns ? *idle_ns : turn->doubt_ns;
    }
}
