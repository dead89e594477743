/* Inside the accounting: what holds for one card right now, and the contexts of this process. */
#ifndef HOOK_TENANT_H
#define HOOK_TENANT_H

#include "memory/account.h"
#include "memory/process.h"

/* One card's rules as they are at this moment. */
struct card_limits {
    uint64_t share_bytes, unaccounted_bytes, context_bytes;
    int card;     /* in the ledger */
    bool counted; /* false: the ledger is unusable, and on_error is open */
};

/* Reads limits, activity and ledger again where they changed. SUCCESS or NOT_PERMITTED. `own` asks
 * for a slot of the ledger, which whoever charges needs. */
CUresult card_limits_read(struct process *process, const CUuuid *uuid, bool own,
                          struct card_limits *limits);
/* process_enter and card_limits_read in one. NULL, and the lock isn't held, where either fails: the
 * caller's answer is NOT_PERMITTED then. */
struct process *card_limits_enter(const CUuuid *uuid, bool own, struct card_limits *limits);
/* What the pages that were read last say of a card; NULL: nothing. */
const struct vcuda_device_limit *card_limits_of(const struct process *process, const CUuuid *uuid);
const struct vcuda_card_activity *card_limits_activity(const struct process *process,
                                                       const CUuuid *uuid);
/* Where something else than the ledger makes accounting impossible. */
CUresult card_limits_on_error(const struct process *process);

/* Adds units to the card's sum within the limits: SUCCESS or OUT_OF_MEMORY. */
CUresult card_limits_charge(struct process *process, const struct card_limits *limits,
                            uint64_t units);
void card_limits_return(struct process *process, int card, uint64_t units);

uint64_t units_up(uint64_t bytes);
/* Of whole pages of 2 MiB, the granularity of a card's memory (cuMemGetAllocationGranularity). */
uint64_t page_units(uint64_t bytes);

struct context *context_by_number(struct process *process, uint32_t number);
struct context *context_find(struct process *process, const struct current_context *current);
/* A free place with a new number; NULL when all are taken. Nothing is charged. */
struct context *context_add(struct process *process, const struct current_context *current,
                            int card);
void context_charge(struct process *process, struct context *context, uint64_t units);
/* The context of `current`; one that is met for the first time is charged. NULL: there is no place.
 */
struct context *context_seen(struct process *process, const struct current_context *current,
                             const struct card_limits *limits);
void context_remove(struct process *process, struct context *context);

#endif
