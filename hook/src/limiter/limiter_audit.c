#include "limiter/limiter_audit.h"

#include "shared/clock.h"

#define AUDIT_NS (1 * NS_PER_S)
#define SILENT_NS (4 * NS_PER_S)
#define FACTOR_MAX 8.0
#define PRIOR_NS 5e7 /* the weight against the first second */
/* The part of the rest that a second's launches settle. The agent's count is some tenths of a
 * second old, and lacks the time that has been settled meanwhile: with the whole rest, the sum
 * would swing. */
#define GAIN 0.5
/* A kernel is counted by the agent while it runs, and by us when it is over: a part of the longest
 * is no rest, and half of it is added to both sides of the ratio, so that one kernel doesn't swing
 * it. */
#define LUMP_PART 8
#define KEPT 0.9 /* of a sum, from second to second */
/* Eleven days: a count beyond that is noise, of a tenant that writes into its ledger; sums of it
 * would overflow a word. */
#define MOST_NS 1e15

/* Both counts as they are now, when the agent's has just come: the base of the next comparison.
 * Also while the card has no other tenant: the container's work until one comes, in a burst perhaps
 * several times its share, is no debt. */
static void rebase(struct limiter_audit *audit, const struct compute_limits *limits, uint64_t now) {
    audit->at = now;
    audit->agent_ns = limits->agent_busy_ns;
    audit->ledger_ns = limits->ledger_busy_ns;
    audit->own_ns = 0;
    audit->own_raw_ns = 0;
}

static void begin(struct limiter_audit *audit) {
    audit->begun = true;
    audit->agent_sum = PRIOR_NS;
    audit->ledger_sum = PRIOR_NS;
    audit->own_sum = PRIOR_NS;
    audit->own_raw_sum = PRIOR_NS;
    audit->rest_ns = 0;
    audit->owed_ns = 0;
    audit->factor = 1;
}

static double within(double value, double least, double most) {
    return value < least ? least : value > most ? most : value;
}

static void account(struct limiter_audit *audit, const struct compute_limits *limits,
                    uint64_t longest_ns, uint64_t now) {
    double agent = within((double)(limits->agent_busy_ns - audit->agent_ns), 0, MOST_NS);
    double ledger = within((double)(limits->ledger_busy_ns - audit->ledger_ns), 0, MOST_NS);
    audit->agent_sum = audit->agent_sum * KEPT + agent;
    audit->ledger_sum = audit->ledger_sum * KEPT + ledger;
    audit->own_sum = audit->own_sum * KEPT + (double)audit->own_ns;
    audit->own_raw_sum = audit->own_raw_sum * KEPT + (double)audit->own_raw_ns;
    rebase(audit, limits, now);
    audit->rest_ns = (int64_t)within((double)audit->rest_ns + agent - ledger, -MOST_NS, MOST_NS);
    if (audit->ledger_sum > 0 && audit->own_raw_sum > 0) {
        double part = within(audit->own_sum / audit->ledger_sum, 0, 1);
        double rest = (double)audit->rest_ns, lump = (double)longest_ns / LUMP_PART;
        double prior = (double)longest_ns / 2;
        audit->owed_ns = (int64_t)((rest - within(rest, -lump, lump)) * GAIN * part);
        audit->factor = within((audit->agent_sum * part + prior) / (audit->own_raw_sum + prior),
                               1 / FACTOR_MAX, FACTOR_MAX);
    }
}

void limiter_audit(struct limiter_audit *audit, const struct compute_limits *limits,
                   uint32_t others, uint64_t longest_ns, uint64_t now) {
    bool undone =
        limits->agent_busy_ns < audit->agent_ns || limits->ledger_busy_ns < audit->ledger_ns;
    bool heard = limits->agent_busy_ns != audit->agent_ns;
    bool silent = !heard && now - audit->at > SILENT_NS;
    if (audit->at == 0 || undone || silent) {
        rebase(audit, limits, now);
        audit->begun = false;
    }
    if (others == 0) {
        audit->begun = false;
        audit->owed_ns = 0;
        if (heard) {
            rebase(audit, limits, now);
        }
    } else if (!audit->begun) {
        begin(audit);
    } else if (heard && limits->ledger_busy_ns != audit->ledger_ns &&
               now - audit->at >= AUDIT_NS / 2) {
        account(audit, limits, longest_ns, now);
    }
}

int64_t limiter_audit_take(struct limiter_audit *audit, int64_t ns) {
    int64_t taken = (int64_t)within((double)audit->owed_ns, -(double)(ns - ns / 8), (double)ns);
    audit->owed_ns -= taken;
    return taken;
}
