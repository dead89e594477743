#include "limiter/gpu_timer_threads.h"

/* Both events are recorded. */
static bool is_whole(const struct gpu_timer_sample *sample) {
    return sample->state == GPU_TIMER_PENDING || sample->state == GPU_TIMER_POLLED;
}

static bool is_recorded(const struct gpu_timer_sample *sample) {
    return is_whole(sample) || (sample->state == GPU_TIMER_OPEN && sample->begun);
}

void gpu_timer_set_out(struct gpu_timer *timer, struct gpu_timer_launch *launch) {
    struct gpu_timer_under_way *under_way = &timer->under_way[launch->stream];
    int64_t others_ns = atomic_fetch_add(&under_way->charged_ns, (int64_t)launch->charged_ns);
    launch->alone = others_ns <= 0; /* less: its context was ended during a launch */
    launch->number = ++under_way->so_far;
    for (int i = 0; !launch->alone && i < GPU_TIMER_SAMPLES; i++) {
        struct gpu_timer_sample *sample = &timer->samples[i];
        bool own = i == launch->begins || i == launch->ends || i == launch->stale;
        if (sample->stream == launch->stream && !is_recorded(sample)) {
            sample->mixed = true;
            sample->others_ns += own ? (uint64_t)others_ns : launch->charged_ns;
        }
    }
}

void gpu_timer_launched(struct gpu_timer *timer, const struct gpu_timer_launch *launch) {
    atomic_fetch_sub(&timer->under_way[launch->stream].charged_ns, (int64_t)launch->charged_ns);
}

bool gpu_timer_waits(const struct gpu_timer *timer, const struct gpu_timer_launch *launch) {
    for (int i = 0; i < GPU_TIMER_SAMPLES; i++) {
        const struct gpu_timer_sample *sample = &timer->samples[i];
        if (is_whole(sample) && sample->stream == launch->stream &&
            sample->epoch == launch->epoch) {
            return true;
        }
    }
    return false;
}

void gpu_timer_was_busy(struct gpu_timer *timer, const struct gpu_timer_launch *launch) {
    struct gpu_timer_stream *stream = &timer->streams[launch->stream];
    uint64_t *idle_ns =
        launch->ends == GPU_TIMER_NONE ? &stream->idle_ns : &timer->samples[launch->ends].idle_ns;
    /* Else the stream may be busy with another thread's new launch, or with the late launch
     * before. */
    bool own = launch->alone && !launch->after_late &&
               launch->number == timer->under_way[launch->stream].so_far;
    bool sure = own || gpu_timer_waits(timer, launch);
    if (sure && stream->epoch == launch->epoch) {
        *idle_ns -= *idle_ns < launch->doubt_ns ? *idle_ns : launch->doubt_ns;
    }
}
