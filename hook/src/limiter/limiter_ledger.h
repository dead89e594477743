/*
 * The reads of the limiter from its files, and its writes into the ledger. The simulation links
 * another one, with plain memory for files.
 */
#ifndef HOOK_LIMITER_LEDGER_H
#define HOOK_LIMITER_LEDGER_H

#include <stdbool.h>

#include "shared/cuda_abi.h"

/* One card's rules for GPU time, as they are at this moment. */
struct compute_limits {
    bool counted; /* false: the ledger is unusable, and on_error is open: nothing is limited */
    uint32_t percent;
    uint32_t burst_percent; /* up to this percentage, idle time is used; `percent` for now */
    bool agent_fresh;       /* the activity page is young enough to be used */
    uint32_t tenants_wanting;
    uint32_t siblings;         /* other processes of this container that use the card */
    uint64_t agent_paid_until; /* CLOCK_MONOTONIC: the agent has this paid first; 0: nothing */
    uint64_t agent_busy_ns;    /* GPU time of the container, by the agent's count */
    uint64_t ledger_busy_ns;   /* and by that of its own processes */
    uint64_t left_ns; /* to be charged once: of processes that ended with launches unmeasured */
};

/* CUDA_SUCCESS or NOT_PERMITTED. */
CUresult limiter_ledger_read(void *files, const CUuuid *uuid, uint64_t now,
                             struct compute_limits *limits);

/* The events since the last entry. */
struct limiter_entry {
    int64_t wall_ns; /* to charge, or, negative, to refund */
    uint64_t credit_ns;
    int64_t busy_ns;
    uint64_t measured_ns;
    uint64_t open_ns; /* the cost of launches under way, beyond their charge, if it isn't known */
    uint64_t throttled_ns;
};

/* Enters them and says that the process wants the card now. Returns the time up to which the
 * container has paid; 0 where there is no ledger at this moment. */
uint64_t limiter_ledger_enter(void *files, const CUuuid *uuid, uint64_t now,
                              const struct limiter_entry *entry);

#endif
