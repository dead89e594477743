#include "limiter/limiter_ledger.h"

#include <stdatomic.h>

#include "limiter/bucket.h"
#include "memory/card_limits.h"
#include "shared/clock.h"
#include "shared/paths.h"

/* A page older than this allows no burst. */
#define BURST_FRESH_NS (1 * NS_PER_S)
/* Its counts, which are written once a second, hold for as long. */
#define WORD_FRESH_NS (5 * NS_PER_S)
/* Another process of the container uses the card if it launched within this time: a waiting thread
 * enters that at least every 100 ms. */
#define SIBLING_NS (300 * NS_PER_MS)

typedef _Atomic uint64_t word;

/* The activity of the container's other processes on the card. */
static void read_slots(const struct ledger *ledger, int card, uint64_t now,
                       struct compute_limits *limits) {
    limits->ledger_busy_ns = 0;
    limits->siblings = 0;
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        struct vcuda_ledger_entry *entry = &ledger->file->slots[slot].cards[card];
        uint64_t wanted = atomic_load((word *)&entry->last_want_ns);
        limits->ledger_busy_ns += atomic_load((word *)&entry->busy_ns);
        if (wanted != 0 && now - wanted <= SIBLING_NS && slot != ledger->slot_lock.slot) {
            limits->siblings++;
        }
    }
}

static void read_page(const struct process *process, const CUuuid *uuid, uint64_t now,
                      const struct vcuda_device_limit *limit, struct compute_limits *limits) {
    const struct vcuda_card_activity *activity = card_limits_activity(process, uuid);
    uint64_t sampled = process->activity.body.activity.sampled_ns;
    uint64_t age = now > sampled ? now - sampled : 0;
    limits->percent = limit->compute_percent;
    limits->burst_percent = limit->compute_percent;
    limits->tenants_wanting = 0;
    limits->agent_busy_ns = 0;
    limits->agent_paid_until = 0;
    if (activity == NULL) {
        return;
    }
    limits->agent_paid_until = activity->paid_until_ns; /* ends by itself, of whatever age */
    if (age <= BURST_FRESH_NS && activity->burst_allowed == 1) {
        limits->burst_percent = limit->burst_percent;
    }
    if (age <= WORD_FRESH_NS) {
        limits->tenants_wanting = activity->tenants_wanting;
        limits->agent_busy_ns = activity->busy_ns;
    }
}

CUresult limiter_ledger_read(void *files, const CUuuid *uuid, uint64_t now,
                             struct compute_limits *limits) {
    (void)files;
    struct card_limits all;
    struct process *process = card_limits_enter(uuid, true, &all);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    read_page(process, uuid, now, card_limits_of(process, uuid), limits);
    limits->counted = all.counted;
    limits->left_ns = 0;
    if (all.counted) {
        limits->left_ns = process->ledger.left_ns[all.card];
        process->ledger.left_ns[all.card] = 0;
        read_slots(&process->ledger, all.card, now, limits);
    }
    process_leave(process);
    return CUDA_SUCCESS;
}

/* Never below zero, for any value that a tenant has written there. */
static void add(uint64_t *shared, int64_t change) {
    uint64_t before = atomic_load((word *)shared);
    uint64_t after = change < 0 && (uint64_t)-change > before ? 0 : before + (uint64_t)change;
    atomic_store((word *)shared, after); /* the slot's owner alone writes it, by one lock */
}

uint64_t limiter_ledger_enter(void *files, const CUuuid *uuid, uint64_t now,
                              const struct limiter_entry *entry) {
    (void)files;
    struct process *process = process_enter();
    uint64_t paid_until = 0;
    if (process == NULL) {
        return 0;
    }
    struct ledger *ledger = &process->ledger;
    int card = ledger_open(ledger, HOOK_LEDGER_PATH, true) ? ledger_card(ledger, uuid->bytes)
                                                           : LEDGER_NO_CARD;
    if (card != LEDGER_NO_CARD) {
        struct vcuda_ledger_entry *own = &ledger->file->slots[ledger->slot_lock.slot].cards[card];
        word *bucket = (word *)&ledger->file->cards[card].paid_until_ns;
        paid_until = bucket_charge(bucket, now, entry->wall_ns, entry->credit_ns);
        add(&own->busy_ns, entry->busy_ns);
        if (ledger->layout >= 2) {
            word *measured = (word *)&ledger->file->cards[card].measured_ns;
            atomic_fetch_add(measured, entry->measured_ns);
            atomic_store((word *)&own->open_ns, entry->open_ns);
        }
        add(&own->throttled_ns, (int64_t)entry->throttled_ns);
        atomic_store((word *)&own->last_want_ns, now);
    }
    process_leave(process);
    return paid_until;
}
