/* The container's ledger: charge, refund and the life of a slot. Callers hold the process's lock.
 */
#ifndef HOOK_LEDGER_H
#define HOOK_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/slot_lock.h"
#include "vcuda_layout.h"

enum { LEDGER_NO_CARD = -1 };

struct ledger {
    struct vcuda_ledger_file *file; /* NULL: not mapped */
    uint32_t layout;                /* of the file */
    struct slot_lock slot_lock;     /* of this process's slot; none: mapped for reading the sums */
    /* The units of this process, by card: its slot may be lost and its file noise, and then these
     * are charged again. */
    uint64_t units[VCUDA_MAX_CARDS], contexts[VCUDA_MAX_CARDS];
    uint64_t left_ns[VCUDA_MAX_CARDS]; /* open time of processes that are gone, uncharged */
};

/* Maps the ledger, and takes a slot where `own` asks for one or the process holds units. False
 * where that isn't possible: missing, truncated or foreign file, no slot free. Cheap after the
 * first time. A slot that was lost is taken anew, charged with the process's units. */
bool ledger_open(struct ledger *ledger, const char *path, bool own);

/* The card's place in the ledger, or LEDGER_NO_CARD. */
int ledger_card(const struct ledger *ledger, const uint8_t *uuid);

/* Adds `units` (negative: returns them) to the sum of a card, if it then doesn't exceed `limit`
 * units. False when it would, without a change. A negative amount always succeeds, also while there
 * is no slot: the next one is charged less. */
bool ledger_add(struct ledger *ledger, int card, int64_t units, uint64_t limit);
uint64_t ledger_sum(const struct ledger *ledger, int card); /* units */

/* Returns the units of processes that are gone to the sum. */
void ledger_reclaim(struct ledger *ledger, const char *path, int card);

/* The units of one slot, its GPU time, and the PID that it names. After ledger_reclaim dead
 * processes hold no units. */
uint64_t ledger_used(const struct ledger *ledger, unsigned slot, int card);
uint64_t ledger_busy_ns(const struct ledger *ledger, unsigned slot, int card);
uint32_t ledger_pid(const struct ledger *ledger, unsigned slot);

/* Enters the generations of the pages that are in force, where the file has a place for them. */
void ledger_note_pages(const struct ledger *ledger, uint64_t limits, uint64_t activity);
void ledger_count_contexts(struct ledger *ledger, int card, int64_t change);
void ledger_count_denial(struct ledger *ledger, int card);

#endif
