/*
 * GPU time of one context's launches, measured by pairs of events around some of them.
 *
 * Every launch is charged an estimate (gpu_timer_keys.h) when it is made. Of the launches of a
 * stream, now and then one, or a run of equal short ones, is put between two events; when the
 * second has passed, the time between them corrects the charge on that stream since the pair
 * before. Pairs are rare around short and known launches, and stand around every long or new
 * one: at most a hundredth of the time goes into them.
 *
 * GPU time is a union: launches that run at the same time on several streams count once. So a
 * pair settles at most the advance of the card's clock beyond the time that other pairs have
 * settled.
 *
 * A launch whose measured times differ by its data may take any time where it isn't measured. Of a
 * stream with such launches, alone on the card, all the time between two pairs is charged, with
 * copies and waits, except while the host had no launch queued. Of other streams kernels are
 * charged, and nothing else.
 *
 * A neighbour's slice lies within the times of the launch that it interrupts. Alone on the card,
 * measured times are taken as they are; beside others, only the part that those can have left
 * (gpu_timer_keys.h).
 *
 * The processor may be taken away in the midst of all this. A launch that reached its stream
 * late leaves it idle though the estimates say it was busy, and a pair holds that time; unless a
 * pair from before still waits for the card. Where such pairs leave the time open, the estimate
 * counts.
 *
 * A pair on a stream that several threads launch on at the same time may hold launches of
 * others. It is believed where its own launches took longer than their charge, with any launches
 * in between; else the charge stands.
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

enum {
    GPU_TIMER_STREAMS = 32,
    GPU_TIMER_SAMPLES = 32,
    GPU_TIMER_EMPTY_PAIRS = 4,
    GPU_TIMER_HOLES = 16,
    GPU_TIMER_NONE = -1
};

/* A driver that takes longer for a launch waited for a processor or for room in its queue. */
#define GPU_TIMER_LATE_NS (50 * NS_PER_US)
/* For so long launches of unknown length are waited for, and that is what one costs that is never
 * measured. */
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
    GPU_TIMER_OPEN,    /* the first event is or will be recorded; launches are added */
    GPU_TIMER_CLOSING, /* the last launch is made, the second event will be recorded */
    GPU_TIMER_PENDING, /* waits for the card */
    GPU_TIMER_POLLED,  /* a thread asks whether the event has passed */
};

/* A pair of events, and the launches between them. */
struct gpu_timer_sample {
    enum gpu_timer_state state;
    int stream;
    uint32_t epoch; /* of the stream's place, which another stream may have taken since */
    struct gpu_timer_key key;
    uint64_t threads;
    uint32_t launches, planned; /* none planned: an empty pair, for the cost of the events */
    uint64_t charged_ns;        /* for the launches in between */
    uint64_t unsettled_ns;      /* for all on the stream since the pair before, these included */
    uint64_t idle_ns;           /* of the stream since the pair before, as far as the host knows */
    uint64_t idle_total_ns;     /* of the whole context until then */
    bool unknown;               /* no launch of its function had been measured */
    bool unsteady;              /* a launch since the pair before may take any time */
    bool begun;                 /* the first event is recorded */
    uint64_t late_ns;           /* beyond that: it may have been, where launches came late */
    uint64_t begun_at;          /* when the first event was recorded */
    uint64_t last_at;           /* when the last launch was charged */
    uint64_t doubt_ns;          /* for how long it may have been idle between the events */
    uint64_t gap_ns;            /* from the first event to the launch, on a stream that was idle:
                                   0 where the event still waited for the card then */
    bool mixed;                 /* other threads' launches may lie in between */
    uint64_t others_ns;         /* the charge of those */
    bool queued;                /* the stream was busy when the first event was recorded */
    CUevent begin, end;
};

struct gpu_timer_stream {
    const void *id; /* NULL: a free place */
    uint32_t epoch;
    uint64_t used_at;
    struct gpu_timer_key last;
    int open;              /* sample, or GPU_TIMER_NONE */
    uint64_t unsettled_ns; /* charged since the last pair */
    uint64_t busy_until;   /* by the estimates */
    uint64_t idle_ns;
    uint64_t late_ns;  /* as in a sample */
    bool late;         /* the same of the launch before */
    bool unsteady;     /* as in a sample */
    bool placed;       /* `passed_ns` is known */
    int64_t passed_ns; /* the card's clock at the end of the last pair */
};

/* By place: charged launches before the return of their driver's call. */
struct gpu_timer_under_way {
    _Atomic int64_t charged_ns;
    uint32_t so_far; /* launches, with those that are over */
};

/* Time of the card that no pair has settled yet: so much of the time before `until`, on the card's
 * clock, and after the hole before. In a part of it the card was idle, by the estimates. */
struct gpu_timer_hole {
    int64_t until, ns, idle_ns;
};

/* One context of the driver. */
struct gpu_timer {
    struct driver *driver;
    struct gpu_timer_stream streams[GPU_TIMER_STREAMS];
    struct gpu_timer_sample samples[GPU_TIMER_SAMPLES];
    struct gpu_timer_under_way under_way[GPU_TIMER_STREAMS];
    _Atomic unsigned in_use; /* samples that aren't free */
    unsigned unknown;        /* of them, of unknown launches */
    uint64_t charged_ns;     /* since the last sample began */
    uint64_t next_ns;        /* and how much of it until the next */
    uint64_t sampled_at;
    _Atomic uint64_t polled_at;
    bool polling; /* a thread looks for pairs that have passed */
    uint64_t random;
    bool was_idle;        /* a pair's stream was idle since the last question */
    uint64_t empty_ns;    /* an empty pair's time */
    unsigned empty_pairs; /* begun */
    CUevent reference;    /* an event that has passed: the zero of the card's clock */
    int64_t reference_ns;
    uint64_t busy_until; /* of all streams, by the estimates */
    uint64_t idle_total_ns;
    int settled_stream;
    int64_t settled_until;                        /* on the card's clock */
    uint64_t settled_idle_ns;                     /* idle_total_ns then */
    struct gpu_timer_hole holes[GPU_TIMER_HOLES]; /* oldest first */
    unsigned hole_count;
};

/* A launch's part in the samples, between gpu_timer_launch and the driver's return. */
struct gpu_timer_launch {
    int stream;
    uint32_t epoch;
    int empty;  /* pair to record before the launch, with no launch in between */
    int begins; /* sample to begin before the launch */
    int ends;   /* sample to end after it */
    int stale;  /* sample of other work on this stream to end before it */
    uint64_t charged_ns;
    uint32_t number;   /* on its stream */
    bool alone;        /* no other launch was under way on the stream when it began */
    uint64_t begun_at; /* when the first event was recorded */
    uint64_t doubt_ns; /* for how long the stream was idle before, if the estimates are right */
    bool after_late;   /* the launch before on its stream came late */
    uint64_t due_at;   /* when the card can have begun it, if the driver is quick */
};

/* The estimated cost of a launch; 0 until it or its function has been measured. */
uint64_t gpu_timer_estimate_ns(struct gpu_timer_keys *keys, const struct gpu_timer_work *work,
                               double factor);
/* Whether a pair of events is left to measure a launch with. */
bool gpu_timer_can_measure(const struct gpu_timer *timer);
/* Adds a launch that was charged with `charged_ns`. */
void gpu_timer_launch(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_work *work, uint64_t charged_ns, uint64_t now,
                      struct gpu_timer_launch *launch);
/* The driver has returned: whether the launch may have come so late to the card that its stream ran
 * dry. Then gpu_timer_came_late; the processor may have been taken away before the driver passed it
 * on, or after. */
bool gpu_timer_is_late(const struct gpu_timer_launch *launch, uint64_t now);
void gpu_timer_came_late(struct gpu_timer *timer, const struct gpu_timer_launch *launch,
                         uint64_t now);
/* The launch failed: no work ran. */
void gpu_timer_cancel(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                      const struct gpu_timer_launch *launch);

/* The times of launches, added up. */
struct gpu_timer_bill {
    int64_t charge_ns; /* beyond what was charged; negative: less */
    int64_t busy_ns;   /* all of it */
    int64_t raw_ns;    /* and without the factor */
};

/* A sample that won't be measured: its charge stands. */
void gpu_timer_drop(struct gpu_timer *timer, struct gpu_timer_keys *keys, int sample,
                    struct gpu_timer_bill *bill);

#endif
