/*
 * The container's GPU time on one card: one word in the ledger, shared by its processes, the moment
 * (CLOCK_MONOTONIC) at which the share will have paid for all launches so far. A charge moves the
 * word on; a thread that finds it ahead of now waits. That is the generic cell rate algorithm
 * (ITU-T I.371, annex A, in its "virtual scheduling" form): a token bucket that needs no process to
 * refill it.
 */
#ifndef HOOK_BUCKET_H
#define HOOK_BUCKET_H

#include <stdatomic.h>
#include <stdint.h>

/* Debt is carried over up to here, and no further: one endless kernel doesn't stop a container for
 * good. */
#define BUCKET_DEBT_MAX_NS UINT64_C(10000000000)

/* Moves the word on by `wall_ns` (negative: a refund), from no earlier than `credit_ns` ago: unused
 * time, and time that is paid back, is saved up that far. Returns the word; a value that a tenant
 * has written there counts as at most the cap of the debt. */
uint64_t bucket_charge(_Atomic uint64_t *paid_until, uint64_t now, int64_t wall_ns,
                       uint64_t credit_ns);

/* The cost of `gpu_ns` in wall time at a share of `percent`, 1..100. */
int64_t bucket_wall_ns(int64_t gpu_ns, uint32_t percent);

#endif
