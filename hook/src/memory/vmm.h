/*
 * Physical memory of cuMemCreate: on a card, in no context. The memory is charged when it is made,
 * and goes back when the last of its handles is released, the last of its mappings is undone, as
 * the driver frees it (cuda.h, cuMemRelease), and its export's descriptor is closed. Memory
 * imported from another process isn't known here: the exporter pays.
 */
#ifndef HOOK_VMM_H
#define HOOK_VMM_H

#include "memory/account.h"

struct vmm_charge {
    int card; /* in the ledger */
    bool counted;
    uint64_t bytes;
};

/* On the card of `current`, which needs no context: SUCCESS, OUT_OF_MEMORY or NOT_PERMITTED. After
 * SUCCESS exactly one of vmm_keep and vmm_cancel. */
CUresult vmm_charge(const struct current_context *current, uint64_t bytes,
                    struct vmm_charge *charge);
void vmm_keep(const struct vmm_charge *charge, uint64_t handle);
void vmm_cancel(const struct vmm_charge *charge);

/* The driver gave the handle out once more. */
void vmm_retained(uint64_t handle);

/* A release in two steps, so that a handle that the driver gives out again finds its place empty.
 */
struct vmm_release {
    bool counted, last;
    uint64_t handle;
    int card;
    uint64_t bytes;
};
struct vmm_release vmm_release_begin(uint64_t handle);
void vmm_release_end(const struct vmm_release *release, bool released);

/* Inside the accounting: callers hold the process's lock. The charge of physical memory, by its
 * handle, goes back, unless a descriptor keeps the memory. */
struct process;
void vmm_free(struct process *process, const struct allocation *physical);

#endif
