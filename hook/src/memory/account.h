/*
 * The memory that this process may take and has taken: limits, ledger, contexts and allocations
 * together.
 *
 * The charge is the memory that the driver takes of the card:
 * - a context: `context_bytes` of the limits file, when it is first seen;
 * - a request above 1 MiB: whole pages of 2 MiB of its own;
 * - smaller ones: they share pages of 2 MiB, so the pages that all of a context's small requests,
 *   each rounded up to 512 bytes, need at least.
 * Source: cuMemGetInfo and NVML move so on real cards (2 MiB is also the granularity that
 * cuMemGetAllocationGranularity reports); the simulated driver does the same. Memory that a driver
 * takes beyond that shows in the agent's `unaccounted`.
 *
 * The account decides for every gate: without limits, or without the card's, it is closed
 * (NOT_PERMITTED); without a usable ledger, `on_error` decides. All functions may be called from
 * any thread, keep errno, don't call the driver, and never sleep but for the lock between threads.
 */
#ifndef HOOK_ACCOUNT_H
#define HOOK_ACCOUNT_H

#include <stdbool.h>

#include "memory/allocation_table.h"
#include "shared/cuda_memory_abi.h"

struct driver;

/* A context, as the driver names the current one. */
struct current_context {
    const struct driver *driver;
    CUcontext handle;
    CUdevice device;
    CUuuid uuid;
};

/* A charge before its outcome is known. */
struct charge {
    uint32_t context; /* number; 0: there is no charge (on_error is open) */
    uint64_t bytes;
    CUuuid uuid; /* the card's */
};

/* Memory in the context of `current`: SUCCESS, OUT_OF_MEMORY or NOT_PERMITTED. After SUCCESS
 * exactly one of account_keep, with the driver's handle, and account_cancel. */
CUresult account_charge(const struct current_context *current, uint64_t bytes,
                        struct charge *charge);
/* The charge is of `bytes` from now on: SUCCESS, or OUT_OF_MEMORY or NOT_PERMITTED and the charge
 * stays as it was. */
CUresult account_resize(struct charge *charge, uint64_t bytes);
void account_keep(const struct charge *charge, enum allocation_kind kind, uint64_t handle);
void account_cancel(const struct charge *charge);

/* A release in two steps, so that a handle that the driver gives out again finds its place empty.
 */
struct account_release {
    enum allocation_kind kind;
    uint64_t handle;
    struct charge charge; /* context 0: not ours, or allocated uncounted */
};
struct account_release account_release_begin(enum allocation_kind kind, uint64_t handle);
void account_release_end(const struct account_release *release, bool released);

/* A tenant's view of a card. */
struct view {
    uint64_t share_bytes;
    uint64_t used_bytes; /* of all processes, with unaccounted memory; at most the share */
};
/* SUCCESS or NOT_PERMITTED. Where on_error is open and the ledger unusable, `used` is the agent's
 * last figure. */
CUresult account_view(const CUuuid *uuid, struct view *view);

/* The container's own processes on a card, with the PIDs that they have in it. */
struct process_usage {
    uint32_t pid;
    uint32_t slot; /* in the ledger: its own while it lives */
    uint64_t used_bytes;
    uint64_t busy_ns; /* GPU time since it took its slot */
};
/* Fills `list`, which has room for as many as the ledger has slots. SUCCESS or NOT_PERMITTED; none
 * where on_error is open and the ledger unusable. */
CUresult account_processes(const CUuuid *uuid, struct process_usage *list, unsigned *count);

#endif
