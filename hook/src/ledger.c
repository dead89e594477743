/*
 * The protocol that vcuda_layout.h describes. All words are shared with processes that may die at
 * any instruction, and with tenants that may write anything: nothing read here is used as an index
 * or a pointer unchecked, and no loop waits for another process to do something.
 */
#include "ledger.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys.h"

#define UNITS_MASK ((UINT64_C(1) << VCUDA_UNITS_BITS) - 1)
#define SUM_SEQUENCE_MASK ((UINT64_C(1) << VCUDA_SUM_SEQUENCE_BITS) - 1)
#define USED_SEQUENCE_MASK ((UINT64_C(1) << VCUDA_USED_SEQUENCE_BITS) - 1)
#define SUM_SEQUENCE_SHIFT (VCUDA_UNITS_BITS + VCUDA_SLOT_BITS)

typedef _Atomic uint64_t word;

static word *sum_word(const struct ledger *ledger, int card) {
    return (word *)&ledger->file->cards[card].sum;
}

static struct vcuda_ledger_entry *entry_of(const struct ledger *ledger, unsigned slot, int card) {
    return &ledger->file->slots[slot].cards[card];
}

static uint64_t sequence_of_used(uint64_t used) { return used >> VCUDA_UNITS_BITS; }

/* Units are never negative and never beyond their field, whatever a tenant has written. */
static uint64_t add_units(uint64_t units, int64_t delta) {
    int64_t result = (int64_t)units + delta;
    if (result < 0) {
        return 0;
    }
    return (uint64_t)result > UNITS_MASK ? UNITS_MASK : (uint64_t)result;
}

/* Carries the operation that set `sum` into its slot, unless its owner or somebody else has. */
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
        return; /* whoever moved the sum on completed this first */
    }
    uint64_t after = add_units(before & UNITS_MASK, delta) | next << VCUDA_UNITS_BITS;
    atomic_compare_exchange_strong(used, &before, after);
}

/* As ledger_add, for any slot whose lock the caller holds. */
static bool add_to_slot(struct ledger *ledger, unsigned slot, int card, int64_t units,
                        uint64_t limit) {
    word *sum = sum_word(ledger, card);
    struct vcuda_ledger_entry *entry = entry_of(ledger, slot, card);
    uint64_t now = atomic_load(sum);
    complete(ledger, card, now); /* it may be this slot's own, of an owner that died */
    uint64_t used = atomic_load((word *)&entry->used);
    uint64_t sequence = (sequence_of_used(used) + 1) & SUM_SEQUENCE_MASK;
    if (units < -(int64_t)(used & UNITS_MASK)) {
        units = -(int64_t)(used & UNITS_MASK); /* a slot gives back what it holds, never others' */
    }
    atomic_store((_Atomic int64_t *)&entry->delta, units);
    for (;;) {
        uint64_t total = add_units(now & UNITS_MASK, units);
        if (units > 0 && total > limit) {
            return false;
        }
        uint64_t after =
            total | (uint64_t)slot << VCUDA_UNITS_BITS | sequence << SUM_SEQUENCE_SHIFT;
        if (atomic_compare_exchange_weak(sum, &now, after)) {
            complete(ledger, card, after);
            return true;
        }
        complete(ledger, card, now);
    }
}

/* What a slot that nobody owns still holds goes back, and its counters start anew. */
static void return_slot(struct ledger *ledger, unsigned slot, int card) {
    struct vcuda_ledger_entry *entry = entry_of(ledger, slot, card);
    complete(ledger, card, atomic_load(sum_word(ledger, card)));
    uint64_t units = atomic_load((word *)&entry->used) & UNITS_MASK;
    if (units != 0) {
        add_to_slot(ledger, slot, card, -(int64_t)units, 0);
    }
    atomic_store((word *)&entry->contexts, 0);
}

static void ledger_close(struct ledger *ledger) {
    if (ledger->file != NULL) {
        munmap(ledger->file, sizeof *ledger->file); /* drops the slot's lock with the last map */
    }
    *ledger = (struct ledger){.file = NULL};
}

static bool header_fits(const struct ledger *ledger) {
    struct vcuda_ledger_header header;
    memcpy(&header, &ledger->file->header, sizeof header);
    return memcmp(header.magic, VCUDA_LEDGER_MAGIC, sizeof header.magic) == 0 &&
           header.version == VCUDA_LAYOUT_VERSION && header.file_bytes == sizeof *ledger->file;
}

static size_t slot_offset(unsigned slot) {
    return offsetof(struct vcuda_ledger_file, slots) + slot * sizeof(struct vcuda_ledger_slot);
}

static bool claim_slot(struct ledger *ledger, int fd) {
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        if (!sys_lock_byte(fd, slot_offset(slot))) {
            continue;
        }
        ledger->slot = slot;
        ledger->owner = true;
        for (int card = 0; card < (int)VCUDA_MAX_CARDS; card++) {
            return_slot(ledger, slot, card);
            struct vcuda_ledger_entry *entry = entry_of(ledger, slot, card);
            memset(&entry->busy_ns, 0,
                   sizeof *entry - offsetof(struct vcuda_ledger_entry, busy_ns));
        }
        ledger->file->slots[slot].pid = sys_pid();
        return true;
    }
    return false;
}

/*
 * The lock belongs to the open file, and the mapping keeps that file open: no descriptor stays that
 * the program could close, and none is inherited. A child must not inherit the mapping either, or
 * its parent's memory would stay charged while the child lives.
 */
static bool map_and_claim(struct ledger *ledger, int fd, bool own) {
    if (lseek(fd, 0, SEEK_END) != (off_t)sizeof *ledger->file) {
        return false;
    }
    void *mapping = mmap(NULL, sizeof *ledger->file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED) {
        return false;
    }
    ledger->file = mapping;
    if (madvise(mapping, sizeof *ledger->file, MADV_DONTFORK) != 0 || !header_fits(ledger)) {
        return false;
    }
    return !own || claim_slot(ledger, fd);
}

/* A file that was cut ends before its last page. */
static bool is_whole(const struct ledger *ledger) {
    return sys_page_is_backed((const char *)(ledger->file + 1) - sizeof(uint32_t));
}

bool ledger_open(struct ledger *ledger, const char *path, bool own) {
    if (ledger->file != NULL && is_whole(ledger) && (ledger->owner || !own)) {
        return true;
    }
    ledger_close(ledger);
    int fd = sys_open(path, O_RDWR);
    if (fd < 0) {
        return false;
    }
    bool opened = map_and_claim(ledger, fd, own);
    if (!opened) {
        ledger_close(ledger);
    }
    sys_close(fd);
    return opened;
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
    return add_to_slot(ledger, ledger->slot, card, units, limit);
}

uint64_t ledger_sum(const struct ledger *ledger, int card) {
    return atomic_load(sum_word(ledger, card)) & UNITS_MASK;
}

void ledger_reclaim(struct ledger *ledger, const char *path, int card) {
    int fd = sys_open(path, O_RDWR);
    if (fd < 0) {
        return;
    }
    complete(ledger, card, atomic_load(sum_word(ledger, card)));
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        bool own = ledger->owner && slot == ledger->slot;
        if (own || ledger_used(ledger, slot, card) == 0 || !sys_lock_byte(fd, slot_offset(slot))) {
            continue;
        }
        return_slot(ledger, slot, card);
        sys_unlock_byte(fd, slot_offset(slot));
    }
    sys_close(fd);
}

uint64_t ledger_used(const struct ledger *ledger, unsigned slot, int card) {
    return atomic_load((word *)&entry_of(ledger, slot, card)->used) & UNITS_MASK;
}

uint32_t ledger_pid(const struct ledger *ledger, unsigned slot) {
    return atomic_load((_Atomic uint32_t *)&ledger->file->slots[slot].pid);
}

void ledger_count_contexts(struct ledger *ledger, int card, int64_t change) {
    atomic_fetch_add((word *)&entry_of(ledger, ledger->slot, card)->contexts, (uint64_t)change);
}

void ledger_count_denial(struct ledger *ledger, int card) {
    atomic_fetch_add((word *)&entry_of(ledger, ledger->slot, card)->denied, 1);
}
