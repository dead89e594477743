/* A card's limits right now. Callers hold the process's lock, but for card_limits_enter. */
#ifndef HOOK_CARD_LIMITS_H
#define HOOK_CARD_LIMITS_H

#include "memory/process.h"

/* One card's rules as they are at this moment. */
struct card_limits {
    uint64_t share_bytes, unaccounted_bytes, context_bytes;
    int card;     /* in the ledger */
    bool counted; /* false: the ledger is unusable, and on_error is open */
};

/* Reads limits, activity and ledger again where they changed. SUCCESS or NOT_PERMITTED. `own` asks
 * for a slot of the ledger: a charge needs one. */
CUresult card_limits_read(struct process *process, const CUuuid *uuid, bool own,
                          struct card_limits *limits);
/* process_enter and card_limits_read in one. NULL, without the lock, where either fails: the
 * caller's answer is NOT_PERMITTED then. */
struct process *card_limits_enter(const CUuuid *uuid, bool own, struct card_limits *limits);
/* The entry of a card in the pages that were read last; NULL: it has none. */
const struct vcuda_device_limit *card_limits_of(const struct process *process, const CUuuid *uuid);
const struct vcuda_card_activity *card_limits_activity(const struct process *process,
                                                       const CUuuid *uuid);
/* The answer where another reason than the ledger makes accounting impossible. */
CUresult card_limits_on_error(const struct process *process);

/* Adds units to the card's sum within the limits: SUCCESS or OUT_OF_MEMORY. */
CUresult card_limits_charge(struct process *process, const struct card_limits *limits,
                            uint64_t units);
void card_limits_return(struct process *process, int card, uint64_t units);

uint64_t units_up(uint64_t bytes);
/* Of whole pages of 2 MiB, the granularity of a card's memory (cuMemGetAllocationGranularity). */
uint64_t page_units(uint64_t bytes);

#endif
