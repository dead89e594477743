/*
 * A ledger of any content and length, used by two processes that may die at any time, while a
 * tenant scribbles in it, cuts it and fills it up again.
 *
 * For any content: the process lives, grants stay within the limit, requests that fit are
 * granted, a slot gives back its own units at most, and the dead hold no units after a look.
 * Before a tenant has scribbled: the sum is the units of the living processes, to the unit.
 */
#include <sys/mman.h>

#include "fuzz.h"
#include "shared/ledger.h"

#define PATH "/proc/self/fd/903"

enum { CARDS = 2, PROCESSES = 2 };
enum operation { OPEN, ADD, GIVE, RECLAIM, DIE, CONTEXTS, NOISE, CUT, FILL, HEADER, OPERATIONS };

struct world {
    struct vcuda_ledger_file *file; /* the tenant's own view; only while the file is whole */
    bool scribbled;
    struct ledger processes[PROCESSES];
    bool open[PROCESSES]; /* the last ledger_open said so, and the file was not cut since */
};

#define UNITS_MAX ((UINT64_C(1) << VCUDA_UNITS_BITS) - 1)

static const struct vcuda_ledger_header honest = {.magic = VCUDA_LEDGER_MAGIC,
                                                  .version = VCUDA_LAYOUT_VERSION,
                                                  .file_bytes = sizeof(struct vcuda_ledger_file),
                                                  .slot_count = VCUDA_LEDGER_SLOTS,
                                                  .slot_bytes = sizeof(struct vcuda_ledger_slot)};

static void fill(struct world *world) {
    fuzz_resize(FUZZ_LEDGER_FD, sizeof *world->file);
    if (world->file == NULL) {
        world->file = fuzz_map(FUZZ_LEDGER_FD, sizeof *world->file);
    }
    memcpy(&world->file->header, &honest, sizeof honest);
    for (unsigned card = 0; card < CARDS; card++) {
        memset(world->file->cards[card].uuid, (int)card + 1, VCUDA_UUID_BYTES);
    }
}

static void cut(struct world *world, uint64_t length) {
    if (world->file != NULL) {
        munmap(world->file, sizeof *world->file);
        world->file = NULL;
    }
    world->scribbled = true;
    world->open[0] = world->open[1] = false; /* each gate opens it anew, and so sees it */
    fuzz_resize(FUZZ_LEDGER_FD, length);
}

/* One word anywhere, mostly one with a meaning. */
static void scribble(struct world *world, struct input *input) {
    uint8_t place = take_byte(input), slot = take_byte(input), card = take_byte(input) % CARDS;
    struct vcuda_ledger_entry *entry = &world->file->slots[slot].cards[card];
    uint64_t *words[] = {&world->file->cards[card].sum,
                         &world->file->cards[card].paid_until_ns,
                         &entry->used,
                         (uint64_t *)&entry->delta,
                         &entry->contexts,
                         &entry->busy_ns,
                         (uint64_t *)world->file + take_word(input) % (sizeof *world->file / 8)};
    *words[place % (sizeof words / sizeof *words)] = take_number(input);
    world->scribbled = true;
}

static uint64_t used_own(const struct ledger *ledger, int card) {
    return ledger->slot_lock.held ? ledger_used(ledger, ledger->slot_lock.slot, card) : 0;
}

/* What a request is added to: the sum, or what the slots say where that is more. */
static uint64_t charged(const struct ledger *ledger, int card) {
    uint64_t units = 0, sum = ledger_sum(ledger, card);
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        units += ledger_used(ledger, slot, card);
    }
    return units > sum ? units : sum;
}

static uint64_t at_most(uint64_t value, uint64_t cap) { return value < cap ? value : cap; }

/* Completes the operation under way, of any process. */
static void complete(struct ledger *ledger, int card) { EXPECT(ledger_add(ledger, card, 0, 0)); }

static void add(struct ledger *ledger, int card, uint64_t units, uint64_t limit) {
    if (!ledger->slot_lock.held) {
        EXPECT(units == 0 || !ledger_add(ledger, card, (int64_t)units, limit));
        return;
    }
    complete(ledger, card);
    uint64_t sum = ledger_sum(ledger, card), used = used_own(ledger, card);
    uint64_t held = ledger->units[card], before = charged(ledger, card);
    bool given = ledger_add(ledger, card, (int64_t)units, limit);
    EXPECT(given == (units == 0 || before + units <= limit));
    units = given ? units : 0;
    EXPECT(ledger_sum(ledger, card) == sum + units);
    EXPECT(used_own(ledger, card) == at_most(used + units, UNITS_MAX));
    EXPECT(ledger->units[card] == at_most(held + units, UNITS_MAX));
}

static void give(struct ledger *ledger, int card, uint64_t units) {
    complete(ledger, card);
    uint64_t sum = ledger_sum(ledger, card), used = used_own(ledger, card);
    uint64_t given = at_most(units, used);
    EXPECT(ledger_add(ledger, card, -(int64_t)units, 0));
    EXPECT(used_own(ledger, card) == used - given);
    EXPECT(ledger_sum(ledger, card) == sum - at_most(given, sum));
}

static void reclaim(struct world *world, struct ledger *ledger, int card) {
    ledger_reclaim(ledger, PATH, card);
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        bool alive = false;
        for (unsigned i = 0; i < PROCESSES; i++) {
            alive |=
                world->processes[i].slot_lock.held && world->processes[i].slot_lock.slot == slot;
        }
        EXPECT(alive || ledger_used(ledger, slot, card) == 0);
    }
}

/* The kernel drops mapping and lock; the process's slot keeps its units. */
static void die(struct world *world, unsigned number) {
    struct ledger *ledger = &world->processes[number];
    slot_lock_release(&ledger->slot_lock);
    if (ledger->file != NULL) {
        munmap(ledger->file, sizeof *ledger->file);
    }
    memset(ledger, 0, sizeof *ledger);
    world->open[number] = false;
}

static void act(struct world *world, struct input *input) {
    uint8_t choice = take_byte(input);
    unsigned number = choice & 1;
    int card = (choice >> 1) % CARDS;
    struct ledger *ledger = &world->processes[number];
    enum operation operation = (enum operation)(choice >> 2) % OPERATIONS;
    if (operation == OPEN) {
        bool own = take_byte(input) % 4 != 0;
        world->open[number] = ledger_open(ledger, PATH, own);
        EXPECT(!world->open[number] || !own || ledger->slot_lock.held);
    } else if (operation == CUT) {
        cut(world, take_word(input) % (2 * sizeof *world->file));
    } else if (operation == FILL) {
        fill(world);
    } else if (operation == DIE) {
        die(world, number);
    } else if (operation == NOISE && world->file != NULL) {
        scribble(world, input);
    } else if (operation == HEADER && world->file != NULL) {
        world->file->header.version = take_byte(input) % 4;
        world->scribbled = true;
    } else if (world->open[number] && operation == ADD) {
        uint64_t units = take_number(input) & UNITS_MAX;
        add(ledger, card, units, take_number(input) & UNITS_MAX);
    } else if (world->open[number] && operation == GIVE) {
        give(ledger, card, take_number(input) & UNITS_MAX);
    } else if (world->open[number] && operation == RECLAIM) {
        reclaim(world, ledger, card);
    } else if (world->open[number] && operation == CONTEXTS) {
        ledger_count_contexts(ledger, card, take_byte(input) % 2 == 0 ? 1 : -1);
    }
}

/* Both processes look: the units of the dead go back. */
static void expect_exact(struct world *world) {
    for (int card = 0; card < CARDS; card++) {
        uint64_t held = 0;
        for (unsigned i = 0; i < PROCESSES; i++) {
            if (ledger_open(&world->processes[i], PATH, false)) {
                reclaim(world, &world->processes[i], card);
            }
            held += world->processes[i].units[card];
        }
        EXPECT(ledger_sum(&world->processes[0], card) == held);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct world world;
    struct input input = {.data = data, .left = size};
    memset(&world, 0, sizeof world);
    fuzz_file(FUZZ_LEDGER_FD);
    fill(&world);
    while (input.left > 0) {
        act(&world, &input);
    }
    if (!world.scribbled) {
        expect_exact(&world);
    }
    die(&world, 0);
    die(&world, 1);
    if (world.file != NULL) {
        munmap(world.file, sizeof *world.file);
    }
    return 0;
}
