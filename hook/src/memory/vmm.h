/*
 * Physical memory of cuMemCreate: on a card, in no context. It is charged when it is made and goes
 * back when the last of its handles is released and the last of its mappings is undone, as the
 * driver frees it (cuda.h, cuMemRelease), and when the descriptor is closed that it was exported
 * by. What is imported from another process isn't known here: the exporter pays.
 */
#ifndef HOOK_VMM_H
#define HOOK_VMM_H

#include "memory/account.h"

struct physical_charge {
    int card; /* in the ledger */
    bool counted;
    uint64_t bytes;
};

/* On the card of `seat`, which needs no context: SUCCESS, OUT_OF_MEMORY or NOT_PERMITTED. After
 * SUCCESS exactly one of physical_keep and physical_cancel. */
CUresult physical_charge(const struct seat *seat, uint64_t bytes, struct physical_charge *charge);
void physical_keep(const struct physical_charge *charge, uint64_t handle);
void physical_cancel(const struct physical_charge *charge);

/* The driver gave the handle out once more. */
void physical_retained(uint64_t handle);
/* It exported the memory as this descriptor; it imported this descriptor. */
void physical_exported(uint64_t handle, int fd);
void physical_imported(uint64_t handle, int fd);
/* Returns what descriptors kept that are closed by now; whether there was any. */
bool physical_reclaim(void);

/* A release in two steps, so that a handle that the driver gives out again finds its place empty.
 */
struct physical_release {
    bool counted, last;
    uint64_t handle;
    int card;
    uint64_t bytes;
};
struct physical_release physical_release_begin(uint64_t handle);
void physical_release_end(const struct physical_release *release, bool released);

/* Around cuMemMap. SUCCESS, or NOT_PERMITTED where there is no memory for a record. `known`: it is
 * ours, and physical_map_end must follow. */
CUresult physical_map_begin(uint64_t handle, bool *known);
void physical_map_end(uint64_t handle, uint64_t address, uint64_t bytes, bool mapped);

/* Around cuMemUnmap, which takes one mapping or several that lie side by side. */
void physical_unmap_begin(uint64_t address, uint64_t bytes);
void physical_unmap_end(uint64_t address, uint64_t bytes, bool unmapped);

/* Within the accounting. What a record of physical memory, by its handle, held goes back, unless a
 * descriptor keeps it. */
struct process;
void physical_free(struct process *process, const struct record *physical);
bool physical_is_kept(struct process *process, const struct record *physical);
bool physical_settle(struct process *process);

#endif
