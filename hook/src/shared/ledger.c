/*
 * The protocol that vcuda_layout.h describes. All words are shared with processes that may die at
 * any instruction, and with tenants that may write any value: a value that is read here is checked
 * before it is an index or a pointer, and no loop waits for another process.
 */
#include "shared/ledger.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "shared/clock.h"
#include "shared/sys.h"

#define UNITS_MASK ((UINT64_C(1) << VCUDA_UNITS_BITS) - 1)
#define SUM_SEQUENCE_MASK ((UINT64_C(1) << VCUDA_SUM_SEQUENCE_BITS) - 1)
#define USED_SEQUENCE_MASK ((UINT64_C(1) << VCUDA_USED_SEQUENCE_BITS) - 1)
#define NO_LIMIT UINT64_MAX
/* Of one slot, for any value that a tenant has written. */
#define OPEN_MAX_NS (10 * NS_PER_S)
#define SUM_SEQUENCE_SHIFT (VCUDA_UNITS_BITS + VCUDA_SLOT_BITS)

typedef _Atomic uint64_t word;

static word *sum_word(const struct ledger *ledger, int card) {
    return (word *)&ledger->file->cards[card].sum;
}

static struct vcuda_ledger_entry *entry_of(const struct ledger *ledger, unsigned slot, int card) {
    return &ledger->file->slots[slot].cards[card];
}

static uint64_t sequence_of_used(uint64_t used) { return used >> VCUDA_UNITS_BITS; }

/* Units stay within their field, for any value that a tenant has written. */
static uint64_t add_units(uint64_t units, int64_t delta) {
    int64_t result = (int64_t)units + delta;
    if (result < 0) {
        return 0;
    }
    return (uint64_t)result > UNITS_MASK ? UNITS_MASK : (uint64_t)result;
}

/* Carries the operation that set `sum` into its slot, unless that is done. */
static void complete(const struct ledger *ledger, int card, uint64_t sum) {
    unsigned slot = (sum >> VCUDA_UNITS_BITS) & (VCUDA_LEDGER_SLOTS - 1);
    uint64_t sequence = sum >> SUM_SEQUENCE_SHIFT;
    struct vcuda_ledger_entry *entry = entry_of(ledger, slot, card);
    word *used = (word *)&entry->used;
    uint64_t before = atomic_load(used);
    uint64_t next = (sequence_of_used(before) + 1) & USED_SEQUENCE_MASK;
    if ((next & SUM_SEQUENCE_MASK) != sequence) {
        return; /* done already, or noise */
    }
    /* The owner writes its next delta only when this operation has reached `used`: then the swap
     * below fails. */
    int64_t delta = atomic_load((_Atomic int64_t *)&entry->delta);
    if (atomic_load(sum_word(ledger, card)) != sum) {
        return; /* the process that moved the sum on completed this first */
    }
    uint64_t after = add_units(before & UNITS_MASK, delta) | next << VCUDA_UNITS_BITS;
    atomic_compare_exchange_strong(used, &before, after);
}

/* What the slots themselves hold. It is the sum, unless a tenant has written over that, and it
 * stood so together with `sum` where that is the same word before and after: each operation changes
 * that first. */
static uint64_t units_of_slots(const struct ledger *ledger, int card) {
    uint64_t units = 0;
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        units += ledger_used(ledger, slot, card);
    }
    return units;
}

/* As ledger_add, for any slot that the caller has locked. Where the slot has no owner, several
 * processes may return its units at the same time: they write the same delta, and the swap of one
 * of them fails those of the others, which then read the rest again. */
static bool add_to_slot(struct ledger *ledger, unsigned slot, int card, int64_t units,
                        uint64_t limit) {
    word *sum = sum_word(ledger, card);
    struct vcuda_ledger_entry *entry = entry_of(ledger, slot, card);
    uint64_t now = atomic_load(sum);
    for (;;) {
        complete(ledger, card, now); /* it may be this slot's own, of an owner that died */
        uint64_t used = atomic_load((word *)&entry->used);
        /* A slot gives back its own units, never others'. */
        int64_t held = (int64_t)(used & UNITS_MASK), delta = units < -held ? -held : units;
        if (delta == 0 || (delta > 0 && (now & UNITS_MASK) + (uint64_t)delta > limit)) {
            return delta == 0;
        }
        /* A sum that its tenant has cleared would grant the share again. */
        if (delta > 0 && limit != NO_LIMIT &&
            units_of_slots(ledger, card) + (uint64_t)delta > limit) {
            uint64_t then = now;
            now = atomic_load(sum);
            if (now == then) {
                return false;
            }
            continue; /* an operation in between: its units may have been read twice */
        }
        uint64_t total = add_units(now & UNITS_MASK, delta);
        atomic_store((_Atomic int64_t *)&entry->delta, delta);
        uint64_t sequence = (sequence_of_used(used) + 1) & SUM_SEQUENCE_MASK;
        uint64_t after =
            total | (uint64_t)slot << VCUDA_UNITS_BITS | sequence << SUM_SEQUENCE_SHIFT;
        if (atomic_compare_exchange_weak(sum, &now, after)) {
            complete(ledger, card, after);
            return true;
        }
    }
}

/* Sets a slot that the caller has locked to `units` of a card, and the sum with it. */
static void settle_slot(struct ledger *ledger, unsigned slot, int card, uint64_t units) {
    complete(ledger, card, atomic_load(sum_word(ledger, card)));
    uint64_t used = ledger_used(ledger, slot, card);
    if (used != units) {
        add_to_slot(ledger, slot, card, (int64_t)units - (int64_t)used, NO_LIMIT);
    }
}

/* The open time of a slot without an owner is charged to the container: it is taken off the slot
 * first, so that a kill in between loses it, and nothing charges it twice. */
static void take_open(struct ledger *ledger, unsigned slot, int card) {
    struct vcuda_ledger_entry *entry = entry_of(ledger, slot, card);
    uint64_t open = ledger->layout >= 2 ? atomic_exchange((word *)&entry->open_ns, 0) : 0;
    if (open != 0) { /* no launch has lasted longer than since it was made */
        uint64_t now = clock_now(), at = atomic_load((word *)&entry->last_want_ns);
        uint64_t most = at >= now ? 0 : now - at < OPEN_MAX_NS ? now - at : OPEN_MAX_NS;
        ledger->left_ns[card] += open < most ? open : most;
    }
}

/* The units of a slot without an owner go back. */
static void return_slot(struct ledger *ledger, unsigned slot, int card) {
    add_to_slot(ledger, slot, card, -(int64_t)UNITS_MASK, 0);
    atomic_store((word *)&entry_of(ledger, slot, card)->contexts, 0);
    take_open(ledger, slot, card);
}

/* Before the slot becomes this process's. It may be the slot that this process lost: its own units
 * stay, for others would get them. */
static void clear_slot(struct ledger *ledger, unsigned slot) {
    for (int card = 0; card < (int)VCUDA_MAX_CARDS; card++) {
        complete(ledger, card, atomic_load(sum_word(ledger, card)));
        if (ledger_used(ledger, slot, card) != ledger->units[card]) {
            return_slot(ledger, slot, card);
        } else if (ledger->units[card] == 0) {
            take_open(ledger, slot, card);
        }
    }
}

static void ledger_close(struct ledger *ledger) {
    slot_lock_release(&ledger->slot_lock);
    if (ledger->file != NULL) {
        sys_unmap(ledger->file, sizeof *ledger->file); /* drops the slot's lock with the last map */
    }
    ledger->file = NULL;
}

static bool header_fits(struct ledger *ledger) {
    struct vcuda_ledger_header header;
    memcpy(&header, &ledger->file->header, sizeof header);
    ledger->layout = header.version;
    return memcmp(header.magic, VCUDA_LEDGER_MAGIC, sizeof header.magic) == 0 &&
           VCUDA_LAYOUT_IS_READ(header.version) && header.file_bytes == sizeof *ledger->file;
}

/* A slot just taken: it gets this process's units, mostly none, and its counters start anew.
 * Whether they still fit isn't checked: the memory is taken, and the next request is refused. */
static void settle_own(struct ledger *ledger) {
    unsigned slot = ledger->slot_lock.slot;
    for (int card = 0; card < (int)VCUDA_MAX_CARDS; card++) {
        struct vcuda_ledger_entry *entry = entry_of(ledger, slot, card);
        settle_slot(ledger, slot, card, ledger->units[card]);
        atomic_store((word *)&entry->contexts, ledger->contexts[card]);
        memset(&entry->busy_ns, 0, sizeof *entry - offsetof(struct vcuda_ledger_entry, busy_ns));
    }
    ledger_note_pages(ledger, 0, 0);
    ledger->file->slots[slot].pid = sys_pid();
}

/* A child must not inherit the mapping, or its parent's memory would stay charged while the child
 * lives. */
static bool map_file(struct ledger *ledger, int fd) {
    struct stat found;
    if (!sys_stat(fd, &found) || found.st_size != (off_t)sizeof *ledger->file) {
        return false;
    }
    void *mapping = sys_map(sizeof *ledger->file, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    if (mapping == NULL) {
        return false;
    }
    ledger->file = mapping;
    return sys_advise(mapping, sizeof *ledger->file, MADV_DONTFORK) && header_fits(ledger);
}

/* A file that was cut ends before its last page. */
static bool is_whole(const struct ledger *ledger) {
    return sys_page_is_backed((const char *)(ledger->file + 1) - sizeof(uint32_t));
}

static bool holds_something(const struct ledger *ledger) {
    for (int card = 0; card < (int)VCUDA_MAX_CARDS; card++) {
        if (ledger->units[card] != 0) {
            return true;
        }
    }
    return false;
}

bool ledger_open(struct ledger *ledger, const char *path, bool own) {
    own = own || holds_something(ledger);
    if (ledger->file != NULL && is_whole(ledger) &&
        (ledger->slot_lock.held ? slot_lock_is_held(&ledger->slot_lock) : !own)) {
        return true;
    }
    ledger_close(ledger);
    int fd = sys_open(path, O_RDWR);
    if (fd < 0) {
        return false;
    }
    const struct slot_clearing clearing = {.clear = clear_slot, .ledger = ledger};
    if (!map_file(ledger, fd)) {
        sys_close(fd);
    } else if (!own) {
        sys_close(fd);
        return true;
    } else if (slot_lock_take(&ledger->slot_lock, path, fd, &clearing)) {
        settle_own(ledger);
        return true;
    }
    ledger_close(ledger);
    return false;
}

int ledger_card(const struct ledger *ledger, const uint8_t *uuid) {
    for (int card = 0; card < (int)VCUDA_MAX_CARDS; card++) {
        if (memcmp(ledger->file->cards[card].uuid, uuid, VCUDA_UUID_BYTES) == 0) {
            return card;
        }
    }
    return LEDGER_NO_CARD;
}

bool ledger_add(struct ledger *ledger, int card, int64_t units, uint64_t limit) {
    bool done = ledger->slot_lock.held
                    ? add_to_slot(ledger, ledger->slot_lock.slot, card, units, limit)
                    : units <= 0;
    if (done) {
        ledger->units[card] = add_units(ledger->units[card], units);
    }
    return done;
}

uint64_t ledger_sum(const struct ledger *ledger, int card) {
    return atomic_load(sum_word(ledger, card)) & UNITS_MASK;
}

void ledger_reclaim(struct ledger *ledger, const char *path, int card) {
    int fd = slot_lock_borrow_descriptor(&ledger->slot_lock, path);
    if (fd < 0) {
        return;
    }
    complete(ledger, card, atomic_load(sum_word(ledger, card)));
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        bool own = ledger->slot_lock.held && slot == ledger->slot_lock.slot;
        if (own || ledger_used(ledger, slot, card) == 0 ||
            !slot_lock_share_other(&ledger->slot_lock, fd, slot)) {
            continue;
        }
        return_slot(ledger, slot, card);
        slot_lock_unshare_other(fd, slot);
    }
    slot_lock_give_back_descriptor(&ledger->slot_lock, fd);
}

uint64_t ledger_used(const struct ledger *ledger, unsigned slot, int card) {
    return atomic_load((word *)&entry_of(ledger, slot, card)->used) & UNITS_MASK;
}

uint64_t ledger_busy_ns(const struct ledger *ledger, unsigned slot, int card) {
    return atomic_load((word *)&entry_of(ledger, slot, card)->busy_ns);
}

static void note(uint64_t *shared, uint64_t generation) {
    if (atomic_load((word *)shared) != generation) {
        atomic_store((word *)shared, generation);
    }
}

void ledger_note_pages(const struct ledger *ledger, uint64_t limits, uint64_t activity) {
    if (ledger->slot_lock.held && ledger->layout >= 2) {
        struct vcuda_ledger_slot *slot = &ledger->file->slots[ledger->slot_lock.slot];
        note(&slot->limits_generation, limits);
        note(&slot->activity_generation, activity);
    }
}

uint32_t ledger_pid(const struct ledger *ledger, unsigned slot) {
    return atomic_load((_Atomic uint32_t *)&ledger->file->slots[slot].pid);
}

void ledger_count_contexts(struct ledger *ledger, int card, int64_t change) {
    ledger->contexts[card] += (uint64_t)change;
    if (ledger->slot_lock.held) {
        atomic_store((word *)&entry_of(ledger, ledger->slot_lock.slot, card)->contexts,
                     ledger->contexts[card]);
    }
}

void ledger_count_denial(struct ledger *ledger, int card) {
    atomic_fetch_add((word *)&entry_of(ledger, ledger->slot_lock.slot, card)->denied, 1);
}
