/*
 * Physical memory of cuMemCreate: on a card, in no context. It is charged when it is made and goes
 * back when the last of its handles is released and the last of its mappings is undone, as the
 * driver frees it (cuda.h, cuMemRelease), and when the descriptor is closed that it was exported
 * by. What is imported from another process isn't known here: the exporter pays.
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
/* It exported the memory as this descriptor; it imported this descriptor. */
void vmm_exported(uint64_t handle, int fd);
void vmm_imported(uint64_t handle, int fd);
/* Returns what descriptors kept that are closed by now; whether there was any. */
bool vmm_reclaim(void);

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

/* Around cuMemMap. SUCCESS, or NOT_PERMITTED where there is no memory for a record. `known`: it is
 * ours, and vmm_map_end must follow. */
CUresult vmm_map_begin(uint64_t handle, bool *known);
void vmm_map_end(uint64_t handle, uint64_t address, uint64_t bytes, bool mapped);

/* Around cuMemUnmap, which takes one mapping or several that lie side by side. */
void vmm_unmap_begin(uint64_t address, uint64_t bytes);
void vmm_unmap_end(uint64_t address, uint64_t bytes, bool unmapped);

/* Within the accounting. What a record of physical memory, by its handle, held goes back, unless a
 * descriptor keeps it. */
struct process;
void vmm_free(struct process *process, const struct allocation *physical);
bool vmm_is_kept(struct process *process, const struct allocation *physical);
bool vmm_settle(struct process *process);

#endif
