/* Inside the accounting: what holds for one card right now, and the contexts of this process. */
#ifndef HOOK_TENANT_H
#define HOOK_TENANT_H

#include "memory/account.h"
#include "memory/process.h"

/* One card's rules as they are at this moment. */
struct terms {
    uint64_t share_bytes, unaccounted_bytes, context_bytes;
    int card;     /* in the ledger */
    bool counted; /* false: the ledger is unusable, and on_error is open */
};

/* Reads limits, activity and ledger again where they changed. SUCCESS or NOT_PERMITTED. `own` asks
 * for a slot of the ledger, which whoever charges needs. */
CUresult terms_read(struct process *process, const CUuuid *uuid, bool own, struct terms *terms);
/* process_enter and terms_read in one. NULL, and the lock isn't held, where either fails: the
 * caller's answer is NOT_PERMITTED then. */
struct process *terms_enter(const CUuuid *uuid, bool own, struct terms *terms);
/* What the pages that were read last say of a card; NULL: nothing. */
const struct vcuda_device_limit *terms_limit(const struct process *process, const CUuuid *uuid);
const struct vcuda_card_activity *terms_activity(const struct process *process, const CUuuid *uuid);
/* Where something else than the ledger makes accounting impossible. */
CUresult terms_on_error(const struct process *process);

/* Adds units to the card's sum within the terms: SUCCESS or OUT_OF_MEMORY. */
CUresult terms_charge(struct process *process, const struct terms *terms, uint64_t units);
void terms_return(struct process *process, int card, uint64_t units);

uint64_t units_up(uint64_t bytes);
/* Of whole pages of 2 MiB, the granularity of a card's memory (cuMemGetAllocationGranularity). */
uint64_t page_units(uint64_t bytes);

struct context *context_by_number(struct process *process, uint32_t number);
struct context *context_of_seat(struct process *process, const struct seat *seat);
/* A free place with a new number; NULL when all are taken. Nothing is charged. */
struct context *context_add(struct process *process, const struct seat *seat, int card);
void context_charge(struct process *process, struct context *context, uint64_t units);
/* The context of `seat`; one that is met for the first time is charged. NULL: there is no place. */
struct context *context_seen(struct process *process, const struct seat *seat,
                             const struct terms *terms);
void context_remove(struct process *process, struct context *context);

#endif
