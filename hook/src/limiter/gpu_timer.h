/*
 * GPU time of one context's launches, measured by pairs of events around some of them.
 *
 * Every launch is charged an estimate (gpu_timer_keys.h) when it is made. Now and then one stands
 * between two events, alone; when the second event has passed, the time between them corrects its
 * charge, and the estimate of the next ones. Pairs are rare around short and known launches, and
 * stand around every launch that is long, or new, or of a kernel whose data decide how long it
 * runs.
 *
 * GPU time is a union: launches that run at the same time on several streams count once. So each
 * stream has a moment up to which its launches keep it busy, and a launch is charged the time by
 * which it moves the latest of those moments on.
 *
 * The processor may be taken away in the midst of all this, and other threads may launch on the
 * same stream meanwhile: a pair that may hold idle time, or others' launches, counts as the most
 * that its launch took.
 *
 * gpu_timer.c is the part without the driver; callers hold the limiter's lock.
 * gpu_timer_events.c makes the driver's calls, with no lock held.
 */
#ifndef HOOK_GPU_TIMER_H
#define HOOK_GPU_TIMER_H

#include <stdatomic.h>

#include "limiter/gpu_timer_keys.h"
#include "shared/clock.h"
#include "shared/cuda_launch_abi.h"

enum { GPU_TIMER_STREAMS = 32, GPU_TIMER_PAIRS = 64, GPU_TIMER_UNKNOWN = 32, GPU_TIMER_NONE = -1 };

/* For so long launches of unknown length are waited for; and the most that one is charged which its
 * context's end, or its process's, leaves unmeasured. */
#define GPU_TIMER_UNKNOWN_NS (1 * NS_PER_S)

struct driver;

/* A launch that is about to be made. */
struct gpu_timer_work {
    struct gpu_timer_key key;
    uint64_t threads;
    CUstream stream;
    bool per_thread; /* the default stream is the thread's own */
};

enum gpu_timer_state {
    GPU_TIMER_FREE,
    GPU_TIMER_TAKEN,   /* the launch is being made */
    GPU_TIMER_PENDING, /* both events are recorded: waits for the card */
};

/* A launch's charge. */
struct gpu_timer_charge {
    int stream;
    const void *id;        /* the stream's: another one may have taken its place since */
    uint64_t estimated_ns; /* the launch alone */
    uint64_t charged_ns;   /* without what runs at the same time anyway */
};

/* A pair of events, and the launch between them. */
struct gpu_timer_pair {
    enum gpu_timer_state state;
    bool empty; /* no launch lies in between: tells the cost of the events */
    struct gpu_timer_key key;
    uint64_t threads;
    struct gpu_timer_charge charge;
    uint64_t charged_until; /* the timer's charged_ns with it */
    bool doubtful;          /* idle time or other launches may lie between the events */
    bool unknown;           /* no launch of its function had been measured */
    uint64_t at;            /* when the launch was charged */
    uint64_t idle_ns;       /* for how long the card waited for the host between the events */
    CUevent begin, end;
};

struct gpu_timer_stream {
    const void *id; /* NULL: a free place */
    uint64_t used_at;
    uint64_t busy_until;
    uint32_t launches; /* so far */
    /* Of them, before the return of the driver's call; less than none: the context was ended during
     * a launch. */
    _Atomic int32_t under_way;
};

/* One context of the driver. */
struct gpu_timer {
    struct driver *driver;
    struct gpu_timer_stream streams[GPU_TIMER_STREAMS];
    struct gpu_timer_pair pairs[GPU_TIMER_PAIRS];
    _Atomic unsigned in_use; /* pairs that aren't free */
    unsigned unknown;        /* of them, of unknown launches */
    uint64_t busy_until;     /* the latest of the streams' */
    uint64_t charged_ns;     /* for all launches */
    uint64_t settled_ns;     /* of it, up to the last pair that was settled */
    uint64_t due_ns;         /* of it, when the next pair is due */
    uint64_t paired_at;
    uint64_t random;
    uint64_t empty_ns; /* an empty pair's time */
    unsigned empties;  /* measured */
    bool was_idle;     /* a pair's stream was idle since `had_nothing` asked last */
    _Atomic uint64_t polled_at;
    bool polling; /* a thread looks for pairs that have passed */
};

/* A launch's part in it, between gpu_timer_launch and the driver's return. */
struct gpu_timer_launch {
    struct gpu_timer_charge charge;
    int pair;          /* to record around it, or GPU_TIMER_NONE */
    bool queued;       /* its stream was busy before */
    bool alone;        /* no other launch was under way on it */
    uint32_t number;   /* on its stream */
    uint64_t begun_at; /* when the first event was recorded */
};

/* Of launches that are over, by a pair after them. */
struct gpu_timer_bill {
    int64_t charge_ns; /* beyond what was charged; negative: less */
    int64_t busy_ns;   /* all of it */
};

/* The neighbours on the card, and the ratio of the agent's count to ours. */
struct gpu_timer_sharing {
    uint32_t others;
    double factor;
};

/* The estimated cost of a launch; 0 until it or its function has been measured. */
uint64_t gpu_timer_estimate_ns(struct gpu_timer_keys *keys,
                               const struct gpu_timer_estimate *estimate, uint64_t threads,
                               double factor);
/* Whether a launch can be measured, if it must be: see gpu_timer.c. */
bool gpu_timer_can_launch(const struct gpu_timer *timer, struct gpu_timer_keys *keys,
                          const struct gpu_timer_estimate *estimate);
/* Adds a launch of an estimated length. */
void gpu_timer_launch(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_work *work, struct gpu_timer_estimate *estimate,
                      uint64_t estimated_ns, uint64_t now, struct gpu_timer_launch *launch);
/* The driver has returned, and events are recorded: needs no lock. */
void gpu_timer_launched(struct gpu_timer *timer, const struct gpu_timer_launch *launch);
/* The launch failed: no work ran. */
void gpu_timer_cancel(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_launch *launch);
/* A pair to be left empty, or GPU_TIMER_NONE. */
int gpu_timer_take_empty(struct gpu_timer *timer);
/* Frees a pair; its charge stays as it is. */
void gpu_timer_drop(struct gpu_timer *timer, struct gpu_timer_keys *keys, int pair);
/* A pair has passed, with so much time between the events. */
void gpu_timer_settle(struct gpu_timer *timer, struct gpu_timer_keys *keys, int pair,
                      int64_t span_ns, struct gpu_timer_sharing sharing,
                      struct gpu_timer_bill *bill);
/* The sum of the ages of all open launches of unknown length, of each at most
 * GPU_TIMER_UNKNOWN_NS. */
uint64_t gpu_timer_open_ns(const struct gpu_timer *timer, uint64_t now);

#endif
