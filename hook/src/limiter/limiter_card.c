#include "limiter/limiter_card.h"

#include "limiter/bucket.h"
#include "shared/clock.h"

/* A launching thread reads the pages this often; a burst ends with the next read. */
#define REFRESH_NS (20 * NS_PER_MS)
#define ENTER_NS (1 * NS_PER_MS)
/* Unused time that is saved up: a late wake-up costs no share. Over 10 s this part adds at most 1 %
 * of the share. */
#define CREDIT_NS (80 * NS_PER_MS)
#define HELD_UP_NS (1 * NS_PER_S)
#define CREDIT_MAX_NS (2 * NS_PER_S)

static uint64_t credit_ns(const struct limiter_card *card, uint64_t now) {
    /* A launch that is held up by its neighbours' work is late by about its own length; and a
     * process that always had a launch queued was held up for as long: most of all when neighbours
     * begin, with launches of unknown length. */
    uint64_t credit =
        CREDIT_NS + (uint64_t)bucket_wall_ns((int64_t)card->longest_ns, card->percent) / 2;
    if (card->others != 0) {
        credit += now - card->busy_since < HELD_UP_NS ? now - card->busy_since : HELD_UP_NS;
    }
    return credit < CREDIT_MAX_NS ? credit : CREDIT_MAX_NS;
}

void limiter_card_enter(struct limiter_card *card, void *files, uint64_t now) {
    /* A count of time doesn't go back: spared time shows when more has passed. */
    int64_t busy = card->busy_ns > 0 ? card->busy_ns : 0;
    int64_t measured = card->measured_ns > 0 ? card->measured_ns : 0;
    const struct limiter_entry entry = {.wall_ns = bucket_wall_ns(card->charged_ns, card->percent),
                                        .credit_ns = credit_ns(card, now),
                                        .busy_ns = busy,
                                        .measured_ns = (uint64_t)measured,
                                        .open_ns = card->open_ns,
                                        .throttled_ns = card->throttled_ns};
    card->paid_until = limiter_ledger_enter(files, &card->uuid, now, &entry);
    card->entered_at = now;
    card->charged_ns = 0;
    card->busy_ns -= busy;
    card->measured_ns -= measured;
    card->audit.own_ns += busy;
    card->throttled_ns = 0;
    if (card->paid_until == 0) {
        card->refresh_at = 0; /* the ledger is lost: the next launch decides by on_error */
    }
}

void limiter_card_enter_some(struct limiter_card *card, void *files, uint64_t now) {
    if (card->charged_ns >= (int64_t)ENTER_NS || now - card->entered_at >= ENTER_NS) {
        limiter_card_enter(card, files, now);
    }
}

int64_t limiter_card_ahead_ns(const struct limiter_card *card, uint64_t now) {
    int64_t paid = (int64_t)(card->paid_until - now);
    int64_t saved = -(int64_t)credit_ns(card, now);
    int64_t own = (paid > saved ? paid : saved) + bucket_wall_ns(card->charged_ns, card->percent);
    /* The later of both, not the sum: mostly it is the same time. */
    int64_t agents = (int64_t)(card->limits.agent_paid_until - now);
    return card->limits.agent_paid_until > now && agents > own ? agents : own;
}

double limiter_card_factor(const struct limiter_card *card) {
    return card->audit.begun ? card->audit.factor : 1;
}

void limiter_card_charge(struct limiter_card *card, uint64_t ns) {
    int64_t owed = limiter_audit_take(&card->audit, (int64_t)ns);
    card->busy_ns += owed;
    card->charged_ns += (int64_t)ns + owed;
}

void limiter_card_settle(struct limiter_card *card, const struct gpu_timer_bill *bill) {
    card->charged_ns += bill->charge_ns;
    card->busy_ns += bill->busy_ns;
    int64_t measured = (int64_t)((double)bill->busy_ns / limiter_card_factor(card));
    card->measured_ns += measured;
    card->audit.own_raw_ns += measured;
}

/* The processes that share the card with this one: the other tenants, and of the container's own
 * processes one at a time, since the bucket lets a launch go when the one before is nearly paid
 * for. */
static uint32_t others_of(const struct compute_limits *limits) {
    uint32_t tenants = limits->tenants_wanting > 1 ? limits->tenants_wanting - 1 : 0;
    return tenants + (limits->siblings != 0);
}

static uint32_t percent_in_force(const struct compute_limits *limits) {
    uint32_t percent =
        limits->burst_percent > limits->percent ? limits->burst_percent : limits->percent;
    return percent < 1 ? 1 : percent > 100 ? 100 : percent;
}

CUresult limiter_card_refresh(struct limiter_card *card, void *files, uint64_t now) {
    if (now < card->refresh_at) {
        return CUDA_SUCCESS;
    }
    if (card->percent != 0 && card->limits.counted) {
        limiter_card_enter(card, files, now); /* at the percentage that it was charged at */
    }
    CUresult result = limiter_ledger_read(files, &card->uuid, now, &card->limits);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    card->refresh_at = now + REFRESH_NS;
    card->longest_ns -= card->longest_ns / 1024; /* half of it is gone after 14 s of launches */
    card->percent = percent_in_force(&card->limits);
    card->charged_ns += (int64_t)card->limits.left_ns;
    card->others = others_of(&card->limits);
    if (card->open_ns == 0) { /* else the agent counts what we don't know yet */
        limiter_audit(&card->audit, &card->limits, card->others, card->longest_ns, now);
    }
    return CUDA_SUCCESS;
}
