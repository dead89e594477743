/*
 * The share of GPU time: a launch waits until earlier ones are nearly paid for, is charged, and is
 * then made.
 *
 * Each process charges its launches here, and enters the sum into the container's bucket
 * (bucket.h), which all its processes share, once a millisecond. A launch waits while the bucket is
 * more than QUEUE_NS ahead, and then until it is half of that: one sleep for many short
 * launches, and the card has work meanwhile. No lock is held during a sleep.
 *
 * Where the agent says how much GPU time the container used (by NVML), the difference to the
 * charge is settled second by second, beside neighbours: their slices make long kernels look
 * longer.
 *
 * The limiter decides: NOT_PERMITTED without limits, or where the ledger is unusable and
 * on_error is closed; where on_error is open, launches go unlimited. A share, or a burst, of
 * 100 % isn't limited, charged or measured.
 */
#ifndef HOOK_LIMITER_H
#define HOOK_LIMITER_H

#include "limiter/gpu_timer_events.h"
#include "limiter/limiter_card.h"
#include "memory/account.h"
#include "vcuda_layout.h"

enum { LIMITER_CONTEXTS = 128 };

/* One context of the driver. */
struct limiter_context {
    CUcontext _Atomic context; /* NULL: a free place */
    CUdevice device;
    uint32_t card;
    _Atomic uint64_t free_until; /* not limited until then (CLOCK_MONOTONIC) */
    uint64_t launched_at;
    struct gpu_timer timer;
};

struct limiter {
    struct lock lock; /* guards all of it */
    void *files;      /* for limiter_ledger.h */
    struct limiter_card cards[VCUDA_MAX_CARDS];
    struct gpu_timer_keys keys;
    struct limiter_context contexts[LIMITER_CONTEXTS];
};

struct limiter_launch {
    bool counted;
    struct gpu_timer_launch timer;
};

/* The calling thread's context; NULL: no place left. */
struct limiter_context *limiter_context_of(struct limiter *limiter,
                                           const struct current_context *current);

/* Charges a launch and waits while the bucket is ahead: CUDA_SUCCESS, then limiter_end, or
 * NOT_PERMITTED. */
CUresult limiter_begin(struct limiter *limiter, struct limiter_context *limited,
                       const struct gpu_timer_work *work, struct limiter_launch *launch);
void limiter_end(struct limiter *limiter, struct limiter_context *limited,
                 const struct gpu_timer_work *work, const struct limiter_launch *launch,
                 CUresult result);

#endif
