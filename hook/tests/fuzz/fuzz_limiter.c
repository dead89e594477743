/*
 * The limiter's entries in a ledger that a tenant scribbles in, with any limits and any word of the
 * agent: the share in force is one, the bucket is never further ahead than the debt's cap, each
 * launch's cost stays within its bounds, and no behaviour is undefined.
 */
#include <sys/mman.h>

#include "fuzz.h"
#include "limiter/bucket.h"
#include "limiter/limiter_card.h"
#include "memory/process.h"
#include "shared/clock.h"
#include "shared/paths.h"

enum operation { LAUNCH, SETTLE, PASS, LIMITS, ACTIVITY, NOISE, OPERATIONS };
/* The most that a launch is estimated or measured at: far more than the longest kernel. */
#define LONGEST_NS (100 * NS_PER_S)

struct world {
    struct vcuda_limits_file *limits, *activity;
    struct vcuda_ledger_file *ledger;
    struct limiter_card card;
    uint64_t now, agent_busy_ns;
};

static void ledger_begin(struct vcuda_ledger_file *file) {
    file->header = (struct vcuda_ledger_header){.version = VCUDA_LAYOUT_VERSION,
                                                .file_bytes = sizeof *file,
                                                .slot_count = VCUDA_LEDGER_SLOTS,
                                                .slot_bytes = sizeof file->slots[0]};
    memcpy(file->header.magic, VCUDA_LEDGER_MAGIC, sizeof file->header.magic);
}

static void publish_limits(struct world *world, struct input *input) {
    struct vcuda_limits_body body = {.on_error = take_byte(input) % 2, .device_count = 1};
    body.devices[0].memory_bytes = take_number(input);
    body.devices[0].compute_percent = (uint32_t)take_number(input);
    body.devices[0].burst_percent = (uint32_t)take_number(input);
    fuzz_publish(world->limits, &body, 4);
}

/* Counts mostly grow; and sometimes they are noise. */
static uint64_t grown(uint64_t count, struct input *input) {
    return (take_byte(input) % 8 == 0 ? 0 : count) + take_number(input);
}

static void publish_activity(struct world *world, struct input *input) {
    struct vcuda_activity_body body = {.sampled_ns = world->now - take_number(input) % NS_PER_S,
                                       .card_count = 1};
    body.cards[0].tenants_wanting = (uint32_t)take_number(input);
    body.cards[0].burst_allowed = take_byte(input) % 3;
    world->agent_busy_ns = grown(world->agent_busy_ns, input);
    body.cards[0].busy_ns = world->agent_busy_ns;
    fuzz_publish(world->activity, &body, 4);
}

static void scribble(struct world *world, struct input *input) {
    struct vcuda_ledger_entry *entry = &world->ledger->slots[take_byte(input) % 2].cards[0];
    uint64_t *words[] = {&entry->busy_ns, &entry->throttled_ns, &entry->last_want_ns, &entry->used,
                         &world->ledger->cards[0].paid_until_ns};
    uint64_t *word = words[take_byte(input) % (sizeof words / sizeof *words)];
    *word = take_byte(input) % 2 == 0 ? grown(*word, input) : world->now;
}

static void expect_bounds(const struct world *world) {
    const struct limiter_card *card = &world->card;
    EXPECT(card->percent >= 1 && card->percent <= 100);
    EXPECT(card->paid_until <= world->now + BUCKET_DEBT_MAX_NS);
    double factor = limiter_card_factor(card);
    EXPECT(factor >= 1.0 / 8 && factor <= 8);
}

static void launch(struct world *world, struct input *input) {
    struct limiter_card *card = &world->card;
    if (limiter_card_refresh(card, NULL, world->now) != CUDA_SUCCESS || !card->limits.counted) {
        return;
    }
    expect_bounds(world);
    uint64_t ns = take_number(input) % LONGEST_NS;
    int64_t before = card->charged_ns;
    limiter_card_charge(card, ns);
    /* An eighth at least, twice at most, for any word of the agent. */
    int64_t cost = card->charged_ns - before;
    EXPECT(cost >= (int64_t)(ns / 8) && cost <= (int64_t)(2 * ns));
    limiter_card_enter_some(card, NULL, world->now);
    int64_t ahead = limiter_card_ahead_ns(card, world->now);
    EXPECT(ahead <= (int64_t)BUCKET_DEBT_MAX_NS + bucket_wall_ns(card->charged_ns, card->percent));
    expect_bounds(world);
}

static void settle(struct world *world, struct input *input) {
    uint64_t measured = take_number(input) % LONGEST_NS;
    const struct gpu_timer_bill bill = {.charge_ns = -(int64_t)(measured / 2),
                                        .busy_ns = (int64_t)measured};
    if (world->card.charged_ns + bill.charge_ns > -(int64_t)LONGEST_NS) {
        limiter_card_settle(&world->card, &bill);
    }
}

/* A new process, as after fork. */
static void forget(void) {
    struct process *process = process_enter();
    EXPECT(process != NULL);
    const struct shared_page *pages[] = {&process->limits, &process->activity};
    for (unsigned i = 0; i < 2; i++) {
        if (pages[i]->mapping != NULL) {
            munmap((void *)(uintptr_t)pages[i]->mapping, VCUDA_PAGE_FILE_BYTES);
        }
    }
    slot_lock_release(&process->ledger.slot_lock);
    if (process->ledger.file != NULL) {
        munmap(process->ledger.file, sizeof *process->ledger.file);
    }
    memset(process, 0, sizeof *process); /* and the lock is free */
}

static void begin(struct world *world) {
    for (int fd = FUZZ_LIMITS_FD; fd <= FUZZ_LEDGER_FD; fd++) {
        fuzz_file(fd);
        fuzz_resize(fd, fd == FUZZ_LEDGER_FD ? sizeof *world->ledger : sizeof *world->limits);
    }
    *world = (struct world){.limits = fuzz_map(FUZZ_LIMITS_FD, sizeof *world->limits),
                            .activity = fuzz_map(FUZZ_ACTIVITY_FD, sizeof *world->activity),
                            .ledger = fuzz_map(FUZZ_LEDGER_FD, sizeof *world->ledger),
                            .now = 1000 * NS_PER_S};
    fuzz_page_begin(world->limits, VCUDA_LIMITS_MAGIC);
    fuzz_page_begin(world->activity, VCUDA_ACTIVITY_MAGIC);
    ledger_begin(world->ledger);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct world world;
    struct input input = {.data = data, .left = size};
    begin(&world);
    publish_limits(&world, &input);
    while (input.left > 0) {
        switch ((enum operation)(take_byte(&input) % OPERATIONS)) {
        case LAUNCH:
            launch(&world, &input);
            break;
        case SETTLE:
            settle(&world, &input);
            break;
        case PASS:
            world.now += take_number(&input) % (5 * NS_PER_S);
            break;
        case LIMITS:
            publish_limits(&world, &input);
            break;
        case ACTIVITY:
            publish_activity(&world, &input);
            break;
        default:
            scribble(&world, &input);
        }
    }
    forget();
    munmap(world.limits, sizeof *world.limits);
    munmap(world.activity, sizeof *world.activity);
    munmap(world.ledger, sizeof *world.ledger);
    return 0;
}
