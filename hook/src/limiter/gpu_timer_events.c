#include "limiter/gpu_timer_events.h"

#include "loader/capture_mode.h"
#include "loader/drivers.h"
#include "shared/clock.h"

/* A pair lies this far from the reference at most: a float of milliseconds then resolves 0.25 us */
#define REFERENCE_MAX_NS ((int64_t)(2 * NS_PER_S))

enum { EVENT_DEFAULT = 0 };

static bool record(struct driver *driver, CUevent *event, const struct meter_work *work) {
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

/* Into a capture no event of ours may go: it would become part of the program's graph. A stream
 * that can't be asked (the legacy one while another captures) isn't touched either. */
static bool may_record(struct driver *driver, const struct meter_work *work) {
    cuStreamIsCapturing_fn *ask = work->per_thread && REAL(driver, cuStreamIsCapturing_ptsz) != NULL
                                      ? REAL(driver, cuStreamIsCapturing_ptsz)
                                      : REAL(driver, cuStreamIsCapturing);
    int status = 0;
    return ask == NULL || (ask(work->stream, &status) == CUDA_SUCCESS && status == 0);
}

static bool is_queued(struct driver *driver, const struct meter_work *work) {
    cuStreamQuery_fn *ask = work->per_thread && REAL(driver, cuStreamQuery_ptsz) != NULL
                                ? REAL(driver, cuStreamQuery_ptsz)
                                : REAL(driver, cuStreamQuery);
    return ask == NULL || ask(work->stream) != CUDA_SUCCESS;
}

static void fail(struct meter *meter, struct meter_keys *keys, struct lock *lock, int number) {
    struct meter_bill ignored = {.busy_ns = 0};
    lock_take(lock);
    meter_drop(meter, keys, number, &ignored);
    lock_release(lock);
}

/* For how long the card had nothing to do between the first event and now. An idle stream waits for
 * its turn all the same while others have theirs: if the event waits still, it will pass right
 * before what comes next, and no time of the host's lies between them. */
static uint64_t gap_since(const struct meter *meter, const struct meter_sample *sample,
                          uint64_t begun_at) {
    cuEventQuery_fn *query = REAL(meter->driver, cuEventQuery);
    uint64_t took = clock_now() - begun_at;
    bool matters = (!sample->queued || took >= METER_LATE_NS) && query != NULL;
    return matters && query(sample->begin) != CUDA_SUCCESS ? 0 : took;
}

/* For how long the card may have had nothing to do between the events of a pair: all the time that
 * the host took, if that was long and the first event has passed. */
static uint64_t doubt_of(const struct meter *meter, const struct meter_sample *sample,
                         struct lock *lock, uint64_t until) {
    cuEventQuery_fn *query = REAL(meter->driver, cuEventQuery);
    lock_take(lock); /* another thread may have begun it */
    uint64_t took = sample->begun && until > sample->begun_at ? until - sample->begun_at : 0;
    CUevent begin = sample->begin;
    lock_release(lock);
    bool matters = took >= METER_LATE_NS && query != NULL;
    return matters && query(begin) == CUDA_SUCCESS ? took : 0;
}

/* `begun_at`: when the first event was recorded, if all between it and now was one launch, or, in
 * an empty pair, this call: on a stream that is idle, that is how much later it began. 0: it
 * wasn't. */
static void end(struct meter *meter, struct meter_keys *keys, struct lock *lock,
                const struct meter_work *work, int number, uint64_t begun_at, uint64_t until) {
    struct meter_sample *sample = &meter->samples[number];
    uint64_t gap_ns = begun_at == 0 ? 0 : gap_since(meter, sample, begun_at);
    uint64_t doubt_ns = doubt_of(meter, sample, lock, until);
    if (!record(meter->driver, &sample->end, work)) {
        fail(meter, keys, lock, number);
        return;
    }
    if (sample->planned == 0) {
        gap_ns = gap_since(meter, sample, begun_at);
    }
    lock_take(lock);
    sample->gap_ns = begun_at == 0 ? sample->gap_ns : gap_ns;
    sample->doubt_ns = doubt_ns;
    sample->state = METER_PENDING;
    lock_release(lock);
}

static void begin(struct meter *meter, struct meter_keys *keys, struct lock *lock,
                  const struct meter_work *work, struct meter_turn *turn) {
    struct meter_sample *sample = &meter->samples[turn->begins];
    bool queued = is_queued(meter->driver, work);
    if (!record(meter->driver, &sample->begin, work)) {
        fail(meter, keys, lock, turn->begins);
        turn->ends = METER_NONE;
        return;
    }
    turn->begun_at = clock_now();
    lock_take(lock);
    sample->queued = queued;
    sample->begun = true;
    sample->begun_at = turn->begun_at;
    meter->was_idle = meter->was_idle || !queued;
    lock_release(lock);
}

/* How long it takes to get from one event to the next, with nothing in between. */
static void measure_empty_pair(struct meter *meter, struct meter_keys *keys, struct lock *lock,
                               const struct meter_work *work, int number) {
    struct meter_sample *sample = &meter->samples[number];
    sample->queued = is_queued(meter->driver, work);
    if (!record(meter->driver, &sample->begin, work)) {
        fail(meter, keys, lock, number);
        return;
    }
    end(meter, keys, lock, work, number, clock_now(), 0);
}

void meter_events_before(struct meter *meter, struct meter_keys *keys, struct lock *lock,
                         const struct meter_work *work, struct meter_turn *turn) {
    if (turn->stale == METER_NONE && turn->begins == METER_NONE && turn->empty == METER_NONE &&
        turn->doubt_ns == 0) {
        return;
    }
    int mode = capture_mode_exchange(meter->driver, CAPTURE_MODE_RELAXED);
    if (!may_record(meter->driver, work)) {
        int all[] = {turn->stale, turn->begins, turn->empty};
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
            if (all[i] != METER_NONE) {
                fail(meter, keys, lock, all[i]);
            }
        }
        turn->ends = METER_NONE;
    } else {
        if (turn->doubt_ns != 0 && is_queued(meter->driver, work)) {
            lock_take(lock);
            meter_was_busy(meter, turn);
            lock_release(lock);
        }
        if (turn->stale != METER_NONE) {
            end(meter, keys, lock, work, turn->stale, 0, meter->samples[turn->stale].last_at);
        }
        if (turn->empty != METER_NONE) {
            measure_empty_pair(meter, keys, lock, work, turn->empty);
        }
        if (turn->begins != METER_NONE) {
            begin(meter, keys, lock, work, turn);
        }
    }
    capture_mode_exchange(meter->driver, mode);
}

void meter_events_after(struct meter *meter, struct meter_keys *keys, struct lock *lock,
                        const struct meter_work *work, const struct meter_turn *turn) {
    if (turn->begins == METER_NONE && turn->ends == METER_NONE) {
        return;
    }
    uint64_t begun_at = turn->begins == METER_NONE ? 0 : turn->begun_at;
    int mode = capture_mode_exchange(meter->driver, CAPTURE_MODE_RELAXED);
    if (turn->ends != METER_NONE) {
        end(meter, keys, lock, work, turn->ends, begun_at, clock_now());
    } else if (begun_at != 0) {
        struct meter_sample *sample = &meter->samples[turn->begins];
        uint64_t gap_ns = gap_since(meter, sample, begun_at);
        lock_take(lock);
        sample->gap_ns = gap_ns;
        lock_release(lock);
    }
    capture_mode_exchange(meter->driver, mode);
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

/* Where a pair's end lies on the card's clock, whose zero is the first pair's end. An event that
 * becomes the reference changes places with the old one: neither is made anew. */
static bool place(struct meter *meter, struct meter_sample *sample, int64_t *clock_ns) {
    int64_t since = 0;
    if (meter->reference != NULL &&
        !elapsed_ns(meter->driver, meter->reference, sample->end, &since)) {
        return false;
    }
    *clock_ns = meter->reference_ns + since;
    if (meter->reference == NULL || since > REFERENCE_MAX_NS) {
        CUevent old = meter->reference;
        meter->reference = sample->end;
        meter->reference_ns = *clock_ns == 0 ? 1 : *clock_ns;
        sample->end = old;
    }
    return true;
}

enum look { LOOK_NOT_YET, LOOK_PASSED, LOOK_FAILED };

static enum look look_at(struct meter *meter, int number, struct meter_passed *passed) {
    enum { NOT_READY = 600 };
    struct meter_sample *sample = &meter->samples[number];
    cuEventQuery_fn *query = REAL(meter->driver, cuEventQuery);
    CUresult result = query == NULL ? CUDA_ERROR_NOT_FOUND : query(sample->end);
    if (result == NOT_READY) {
        return LOOK_NOT_YET;
    }
    passed->sample = number;
    bool measured = result == CUDA_SUCCESS &&
                    elapsed_ns(meter->driver, sample->begin, sample->end, &passed->span_ns) &&
                    place(meter, sample, &passed->clock_ns);
    return measured ? LOOK_PASSED : LOOK_FAILED;
}

/* Takes all that wait for the card. One thread at a time: it moves the reference, too. */
static unsigned take_pending(struct meter *meter, int *numbers) {
    unsigned count = 0;
    for (int i = 0; !meter->polling && i < METER_SAMPLES; i++) {
        if (meter->samples[i].state == METER_PENDING) {
            meter->samples[i].state = METER_POLLED;
            numbers[count++] = i;
        }
    }
    meter->polling = meter->polling || count != 0;
    return count;
}

static void put_in_order(struct meter_passed *passed, unsigned count) {
    for (unsigned i = count - 1; i > 0 && passed[i].clock_ns < passed[i - 1].clock_ns; i--) {
        struct meter_passed later = passed[i - 1];
        passed[i - 1] = passed[i];
        passed[i] = later;
    }
}

struct meter_bill meter_events_poll(struct meter *meter, struct meter_keys *keys, struct lock *lock,
                                    struct meter_company company) {
    int numbers[METER_SAMPLES];
    enum look looks[METER_SAMPLES];
    struct meter_passed passed[METER_SAMPLES];
    unsigned through = 0;
    struct meter_bill bill = {.busy_ns = 0};
    lock_take(lock);
    unsigned count = take_pending(meter, numbers);
    lock_release(lock);
    if (count == 0) {
        return bill;
    }
    int mode = capture_mode_exchange(meter->driver, CAPTURE_MODE_RELAXED);
    for (unsigned i = 0; i < count; i++) {
        looks[i] = look_at(meter, numbers[i], &passed[through]);
        if (looks[i] == LOOK_PASSED) {
            put_in_order(passed, ++through);
        }
    }
    capture_mode_exchange(meter->driver, mode);
    lock_take(lock);
    meter->polling = false;
    for (unsigned i = 0; i < through; i++) {
        meter_settle(meter, keys, &passed[i], company, &bill);
    }
    for (unsigned i = 0; i < count; i++) {
        if (looks[i] == LOOK_FAILED) {
            meter_drop(meter, keys, numbers[i], &bill);
        } else if (looks[i] == LOOK_NOT_YET) {
            meter->samples[numbers[i]].state = METER_PENDING;
        }
    }
    lock_release(lock);
    return bill;
}
