#include "limiter/gpu_timer_events.h"

#include "loader/capture_mode.h"
#include "loader/drivers.h"
#include "shared/clock.h"

/* A driver that takes longer for a launch waited for a processor or for room in its queue. */
#define LATE_NS (50 * NS_PER_US)

enum { EVENT_DEFAULT = 0 };

static bool record(struct driver *driver, CUevent *event, const struct gpu_timer_work *work) {
    cuEventCreate_fn *create = REAL(driver, cuEventCreate);
    cuEventRecord_fn *on_stream = work->per_thread && REAL(driver, cuEventRecord_ptsz) != NULL
                                      ? REAL(driver, cuEventRecord_ptsz)
                                      : REAL(driver, cuEventRecord);
    if (create == NULL || on_stream == NULL ||
        (*event == NULL && create(event, EVENT_DEFAULT) != CUDA_SUCCESS)) {
        return false;
    }
    return on_stream(*event, work->stream) == CUDA_SUCCESS;
}

bool gpu_timer_events_may_record(struct driver *driver, const struct gpu_timer_work *work) {
    cuStreamIsCapturing_fn *ask = work->per_thread && REAL(driver, cuStreamIsCapturing_ptsz) != NULL
                                      ? REAL(driver, cuStreamIsCapturing_ptsz)
                                      : REAL(driver, cuStreamIsCapturing);
    int status = 0;
    return ask == NULL || (ask(work->stream, &status) == CUDA_SUCCESS && status == 0);
}

static bool is_queued(struct driver *driver, const struct gpu_timer_work *work) {
    cuStreamQuery_fn *ask = work->per_thread && REAL(driver, cuStreamQuery_ptsz) != NULL
                                ? REAL(driver, cuStreamQuery_ptsz)
                                : REAL(driver, cuStreamQuery);
    return ask == NULL || ask(work->stream) != CUDA_SUCCESS;
}

static bool has_passed(struct driver *driver, CUevent event) {
    cuEventQuery_fn *query = REAL(driver, cuEventQuery);
    return query != NULL && query(event) == CUDA_SUCCESS;
}

/* Whether no other thread's launch can lie between what was recorded around this one. */
static bool was_alone(const struct gpu_timer *timer, struct lock *lock,
                      const struct gpu_timer_launch *launch) {
    lock_take(lock);
    bool last = timer->streams[launch->charge.stream].launches == launch->number;
    lock_release(lock);
    return launch->alone && last;
}

/* The end of a pair's part in its launch: it waits for the card, or it is dropped. */
static void finish(struct gpu_timer *timer, struct gpu_timer_keys *keys, struct lock *lock,
                   int number, bool recorded, bool doubtful) {
    lock_take(lock);
    struct gpu_timer_pair *pair = &timer->pairs[number];
    if (pair->state == GPU_TIMER_TAKEN) { /* else its context has ended meanwhile */
        pair->doubtful = doubtful;
        pair->state = GPU_TIMER_PENDING;
        if (!recorded) {
            gpu_timer_drop(timer, keys, number);
        }
    }
    lock_release(lock);
}

/* The time from one event to the next, with no launch in between. */
static void measure_empty_pair(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                               struct lock *lock, const struct gpu_timer_work *work,
                               const struct gpu_timer_launch *launch) {
    lock_take(lock);
    int number = gpu_timer_take_empty(timer);
    lock_release(lock);
    if (number != GPU_TIMER_NONE) {
        struct gpu_timer_pair *pair = &timer->pairs[number];
        bool recorded =
            record(timer->driver, &pair->begin, work) && record(timer->driver, &pair->end, work);
        bool idle = recorded && has_passed(timer->driver, pair->begin);
        finish(timer, keys, lock, number, recorded, idle || !was_alone(timer, lock, launch));
    }
}

void gpu_timer_events_before(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                             struct lock *lock, const struct gpu_timer_work *work,
                             struct gpu_timer_launch *launch) {
    if (launch->pair == GPU_TIMER_NONE) {
        return;
    }
    int mode = capture_mode_exchange(timer->driver, CAPTURE_MODE_RELAXED);
    bool may = gpu_timer_events_may_record(timer->driver, work);
    if (may) {
        launch->queued = is_queued(timer->driver, work);
        if (launch->queued) { /* on an idle stream the next event comes as late as the host */
            measure_empty_pair(timer, keys, lock, work, launch);
        }
    }
    if (!may || !record(timer->driver, &timer->pairs[launch->pair].begin, work)) {
        finish(timer, keys, lock, launch->pair, false, true);
        launch->pair = GPU_TIMER_NONE;
    }
    launch->begun_at = clock_now();
    capture_mode_exchange(timer->driver, mode);
}

void gpu_timer_events_after(struct gpu_timer *timer, struct gpu_timer_keys *keys, struct lock *lock,
                            const struct gpu_timer_work *work,
                            const struct gpu_timer_launch *launch) {
    if (launch->pair == GPU_TIMER_NONE) {
        return;
    }
    int mode = capture_mode_exchange(timer->driver, CAPTURE_MODE_RELAXED);
    struct gpu_timer_pair *pair = &timer->pairs[launch->pair];
    uint64_t took = clock_now() - launch->begun_at;
    /* On an idle stream the first event passes at once, and the card waits for the launch; unless
     * the card runs others' work: then the event passes right before the launch. */
    bool waited = (!launch->queued || took >= LATE_NS) && has_passed(timer->driver, pair->begin);
    bool recorded = record(timer->driver, &pair->end, work);
    bool late = clock_now() - launch->begun_at >= LATE_NS && has_passed(timer->driver, pair->begin);
    capture_mode_exchange(timer->driver, mode);
    lock_take(lock);
    timer->was_idle = timer->was_idle || !launch->queued;
    pair->idle_ns = waited ? took : 0;
    lock_release(lock);
    finish(timer, keys, lock, launch->pair, recorded, late || !was_alone(timer, lock, launch));
}

enum look { LOOK_NOT_YET, LOOK_PASSED, LOOK_FAILED };

static enum look look_at(struct gpu_timer *timer, int number, int64_t *span_ns) {
    enum { NOT_READY = 600 };
    const struct gpu_timer_pair *pair = &timer->pairs[number];
    cuEventQuery_fn *query = REAL(timer->driver, cuEventQuery);
    cuEventElapsedTime_fn *elapsed = REAL(timer->driver, cuEventElapsedTime);
    CUresult result = query == NULL ? CUDA_ERROR_NOT_FOUND : query(pair->end);
    float ms = 0;
    if (result == NOT_READY) {
        return LOOK_NOT_YET;
    }
    if (result != CUDA_SUCCESS || elapsed == NULL ||
        elapsed(&ms, pair->begin, pair->end) != CUDA_SUCCESS || !(ms >= 0 && ms < 1e9F)) {
        return LOOK_FAILED;
    }
    *span_ns = (int64_t)((double)ms * 1e6);
    return LOOK_PASSED;
}

/* All pairs that wait for the card, unless another thread looks at them. */
static unsigned take_pending(struct gpu_timer *timer, int *numbers) {
    unsigned count = 0;
    for (int i = 0; !timer->polling && i < GPU_TIMER_PAIRS; i++) {
        if (timer->pairs[i].state == GPU_TIMER_PENDING) {
            numbers[count++] = i;
        }
    }
    timer->polling = timer->polling || count != 0;
    return count;
}

struct gpu_timer_bill gpu_timer_events_poll(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                                            struct lock *lock, struct gpu_timer_sharing sharing) {
    int numbers[GPU_TIMER_PAIRS];
    enum look looks[GPU_TIMER_PAIRS];
    int64_t spans_ns[GPU_TIMER_PAIRS];
    struct gpu_timer_bill bill = {.busy_ns = 0};
    lock_take(lock);
    unsigned count = take_pending(timer, numbers);
    lock_release(lock);
    if (count == 0) {
        return bill;
    }
    int mode = capture_mode_exchange(timer->driver, CAPTURE_MODE_RELAXED);
    for (unsigned i = 0; i < count; i++) {
        looks[i] = look_at(timer, numbers[i], &spans_ns[i]);
    }
    capture_mode_exchange(timer->driver, mode);
    lock_take(lock);
    timer->polling = false;
    for (unsigned i = 0; i < count; i++) {
        if (timer->pairs[numbers[i]].state != GPU_TIMER_PENDING) {
            continue; /* its context has ended meanwhile */
        }
        if (looks[i] == LOOK_PASSED) {
            gpu_timer_settle(timer, keys, numbers[i], spans_ns[i], sharing, &bill);
        } else if (looks[i] == LOOK_FAILED) {
            gpu_timer_drop(timer, keys, numbers[i]);
        }
    }
    lock_release(lock);
    return bill;
}
