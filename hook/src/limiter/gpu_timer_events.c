#include "limiter/gpu_timer_events.h"

#include "limiter/gpu_timer_threads.h"
#include "loader/capture_mode.h"
#include "loader/drivers.h"
#include "shared/clock.h"

/* A pair lies this far from the reference at most: a float of milliseconds then resolves 0.25 us */
#define REFERENCE_MAX_NS ((int64_t)(2 * NS_PER_S))

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

/* The hook records no event into a capture: it would become part of the program's graph. A stream
 * that refuses the question (the legacy one while another captures) is left alone too. */
static bool may_record(struct driver *driver, const struct gpu_timer_work *work) {
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

static void fail(struct gpu_timer *timer, struct gpu_timer_keys *keys, struct lock *lock,
                 int number) {
    struct gpu_timer_bill ignored = {.busy_ns = 0};
    lock_take(lock);
    gpu_timer_drop(timer, keys, number, &ignored);
    lock_release(lock);
}

/* How long the card was idle between the first event and now. An idle stream still waits while the
 * card runs others: if the event waits still, it will pass right before the next launch, without
 * time of the host between them. */
static uint64_t gap_since(const struct gpu_timer *timer, const struct gpu_timer_sample *sample,
                          uint64_t begun_at) {
    cuEventQuery_fn *query = REAL(timer->driver, cuEventQuery);
    uint64_t took = clock_now() - begun_at;
    bool matters = (!sample->queued || took >= GPU_TIMER_LATE_NS) && query != NULL;
    return matters && query(sample->begin) != CUDA_SUCCESS ? 0 : took;
}

/* How long the card may have been idle between the events of a pair: all the time that the host
 * took, if that was long and the first event has passed. */
static uint64_t doubt_of(const struct gpu_timer *timer, const struct gpu_timer_sample *sample,
                         struct lock *lock, uint64_t until) {
    cuEventQuery_fn *query = REAL(timer->driver, cuEventQuery);
    lock_take(lock); /* another thread may have begun it */
    uint64_t took = sample->begun && until > sample->begun_at ? until - sample->begun_at : 0;
    CUevent begin = sample->begin;
    lock_release(lock);
    bool matters = took >= GPU_TIMER_LATE_NS && query != NULL;
    return matters && query(begin) == CUDA_SUCCESS ? took : 0;
}

/* `begun_at`: when the first event was recorded, if all between it and now was one launch, or, in
 * an empty pair, this call: on an idle stream, that is how much later it began. 0: other work lay
 * in between. */
static void end(struct gpu_timer *timer, struct gpu_timer_keys *keys, struct lock *lock,
                const struct gpu_timer_work *work, int number, uint64_t begun_at, uint64_t until) {
    struct gpu_timer_sample *sample = &timer->samples[number];
    uint64_t gap_ns = begun_at == 0 ? 0 : gap_since(timer, sample, begun_at);
    uint64_t doubt_ns = doubt_of(timer, sample, lock, until);
    if (!record(timer->driver, &sample->end, work)) {
        fail(timer, keys, lock, number);
        return;
    }
    if (sample->planned == 0) {
        gap_ns = gap_since(timer, sample, begun_at);
    }
    lock_take(lock);
    sample->gap_ns = begun_at == 0 ? sample->gap_ns : gap_ns;
    sample->doubt_ns = doubt_ns;
    sample->state = GPU_TIMER_PENDING;
    lock_release(lock);
}

static void begin(struct gpu_timer *timer, struct gpu_timer_keys *keys, struct lock *lock,
                  const struct gpu_timer_work *work, struct gpu_timer_launch *launch) {
    struct gpu_timer_sample *sample = &timer->samples[launch->begins];
    bool queued = is_queued(timer->driver, work);
    if (!record(timer->driver, &sample->begin, work)) {
        fail(timer, keys, lock, launch->begins);
        launch->ends = GPU_TIMER_NONE;
        return;
    }
    launch->begun_at = clock_now();
    lock_take(lock);
    sample->queued = queued;
    sample->begun = true;
    sample->begun_at = launch->begun_at;
    timer->was_idle = timer->was_idle || !queued;
    lock_release(lock);
}

/* The time from one event to the next, with no launch in between. */
static void measure_empty_pair(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                               struct lock *lock, const struct gpu_timer_work *work, int number) {
    struct gpu_timer_sample *sample = &timer->samples[number];
    sample->queued = is_queued(timer->driver, work);
    if (!record(timer->driver, &sample->begin, work)) {
        fail(timer, keys, lock, number);
        return;
    }
    end(timer, keys, lock, work, number, clock_now(), 0);
}

void gpu_timer_events_before(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                             struct lock *lock, const struct gpu_timer_work *work,
                             struct gpu_timer_launch *launch) {
    if (launch->stale == GPU_TIMER_NONE && launch->begins == GPU_TIMER_NONE &&
        launch->empty == GPU_TIMER_NONE && launch->doubt_ns == 0) {
        return;
    }
    int mode = capture_mode_exchange(timer->driver, CAPTURE_MODE_RELAXED);
    if (!may_record(timer->driver, work)) {
        int all[] = {launch->stale, launch->begins, launch->empty};
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
            if (all[i] != GPU_TIMER_NONE) {
                fail(timer, keys, lock, all[i]);
            }
        }
        launch->ends = GPU_TIMER_NONE;
    } else {
        if (launch->doubt_ns != 0 && is_queued(timer->driver, work)) {
            lock_take(lock);
            gpu_timer_was_busy(timer, launch);
            lock_release(lock);
        }
        if (launch->stale != GPU_TIMER_NONE) {
            end(timer, keys, lock, work, launch->stale, 0, timer->samples[launch->stale].last_at);
        }
        if (launch->empty != GPU_TIMER_NONE) {
            measure_empty_pair(timer, keys, lock, work, launch->empty);
        }
        if (launch->begins != GPU_TIMER_NONE) {
            begin(timer, keys, lock, work, launch);
        }
    }
    capture_mode_exchange(timer->driver, mode);
}

void gpu_timer_events_after(struct gpu_timer *timer, struct gpu_timer_keys *keys, struct lock *lock,
                            const struct gpu_timer_work *work,
                            const struct gpu_timer_launch *launch) {
    if (launch->begins == GPU_TIMER_NONE && launch->ends == GPU_TIMER_NONE) {
        return;
    }
    uint64_t begun_at = launch->begins == GPU_TIMER_NONE ? 0 : launch->begun_at;
    int mode = capture_mode_exchange(timer->driver, CAPTURE_MODE_RELAXED);
    if (launch->ends != GPU_TIMER_NONE) {
        end(timer, keys, lock, work, launch->ends, begun_at, clock_now());
    } else if (begun_at != 0) {
        struct gpu_timer_sample *sample = &timer->samples[launch->begins];
        uint64_t gap_ns = gap_since(timer, sample, begun_at);
        lock_take(lock);
        sample->gap_ns = gap_ns;
        lock_release(lock);
    }
    capture_mode_exchange(timer->driver, mode);
}

static bool elapsed_ns(struct driver *driver, CUevent from, CUevent to, int64_t *ns) {
    cuEventElapsedTime_fn *ask = REAL(driver, cuEventElapsedTime);
    float ms = 0;
    if (ask == NULL || ask(&ms, from, to) != CUDA_SUCCESS || !(ms > -1e9F && ms < 1e9F)) {
        return false;
    }
    *ns = (int64_t)((double)ms * 1e6);
    return true;
}

/* The place of a pair's end on the card's clock, which has its zero at the first pair's end. An
 * event that becomes the reference changes places with the old one: neither is made anew. */
static bool place(struct gpu_timer *timer, struct gpu_timer_sample *sample, int64_t *clock_ns) {
    int64_t since = 0;
    if (timer->reference != NULL &&
        !elapsed_ns(timer->driver, timer->reference, sample->end, &since)) {
        return false;
    }
    *clock_ns = timer->reference_ns + since;
    if (timer->reference == NULL || since > REFERENCE_MAX_NS) {
        CUevent old = timer->reference;
        timer->reference = sample->end;
        timer->reference_ns = *clock_ns == 0 ? 1 : *clock_ns;
        sample->end = old;
    }
    return true;
}

enum look { LOOK_NOT_YET, LOOK_PASSED, LOOK_FAILED };

static enum look look_at(struct gpu_timer *timer, int number, struct gpu_timer_passed *passed) {
    enum { NOT_READY = 600 };
    struct gpu_timer_sample *sample = &timer->samples[number];
    cuEventQuery_fn *query = REAL(timer->driver, cuEventQuery);
    CUresult result = query == NULL ? CUDA_ERROR_NOT_FOUND : query(sample->end);
    if (result == NOT_READY) {
        return LOOK_NOT_YET;
    }
    passed->sample = number;
    bool measured = result == CUDA_SUCCESS &&
                    elapsed_ns(timer->driver, sample->begin, sample->end, &passed->span_ns) &&
                    place(timer, sample, &passed->clock_ns);
    return measured ? LOOK_PASSED : LOOK_FAILED;
}

/* Takes all pairs that wait for the card. One thread at a time: the call moves the reference,
 * too. */
static unsigned take_pending(struct gpu_timer *timer, int *numbers) {
    unsigned count = 0;
    for (int i = 0; !timer->polling && i < GPU_TIMER_SAMPLES; i++) {
        if (timer->samples[i].state == GPU_TIMER_PENDING) {
            timer->samples[i].state = GPU_TIMER_POLLED;
            numbers[count++] = i;
        }
    }
    timer->polling = timer->polling || count != 0;
    return count;
}

static void put_in_order(struct gpu_timer_passed *passed, unsigned count) {
    for (unsigned i = count - 1; i > 0 && passed[i].clock_ns < passed[i - 1].clock_ns; i--) {
        struct gpu_timer_passed later = passed[i - 1];
        passed[i - 1] = passed[i];
        passed[i] = later;
    }
}

struct gpu_timer_bill gpu_timer_events_poll(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                                            struct lock *lock, struct gpu_timer_sharing sharing) {
    int numbers[GPU_TIMER_SAMPLES];
    enum look looks[GPU_TIMER_SAMPLES];
    struct gpu_timer_passed passed[GPU_TIMER_SAMPLES];
    unsigned through = 0;
    struct gpu_timer_bill bill = {.busy_ns = 0};
    lock_take(lock);
    unsigned count = take_pending(timer, numbers);
    lock_release(lock);
    if (count == 0) {
        return bill;
    }
    int mode = capture_mode_exchange(timer->driver, CAPTURE_MODE_RELAXED);
    for (unsigned i = 0; i < count; i++) {
        looks[i] = look_at(timer, numbers[i], &passed[through]);
        if (looks[i] == LOOK_PASSED) {
            put_in_order(passed, ++through);
        }
    }
    capture_mode_exchange(timer->driver, mode);
    lock_take(lock);
    timer->polling = false;
    for (unsigned i = 0; i < through; i++) {
        gpu_timer_settle(timer, keys, &passed[i], sharing, &bill);
    }
    for (unsigned i = 0; i < count; i++) {
        if (looks[i] == LOOK_FAILED) {
            gpu_timer_drop(timer, keys, numbers[i], &bill);
        } else if (looks[i] == LOOK_NOT_YET) {
            timer->samples[numbers[i]].state = GPU_TIMER_PENDING;
        }
    }
    lock_release(lock);
    return bill;
}
