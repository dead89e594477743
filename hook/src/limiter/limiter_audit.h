/*
 * Beside neighbours, their slices make long kernels look longer than they are. The agent knows what
 * the card was busy with for the container (NVML's process utilisation); the ledgers say what was
 * charged for it. Two things follow second by second:
 *
 * - the factor between the two, over the last seconds, applies to what is measured from now on;
 * - the rest that stays is settled with the next launches, half of it a second, each process its
 *   part. It shows in the ledgers when it is, so each is settled once, and errors vanish.
 *
 * Whatever the agent says, there is a limit: the factor lies within an eighth and 8, what is owed
 * makes an eighth to twice of a launch's cost by that, and an agent whose count stands still
 * doesn't count.
 */
#ifndef HOOK_LIMITER_AUDIT_H
#define HOOK_LIMITER_AUDIT_H

#include "limiter/limiter_ledger.h"

/*
 * The agent's count of the container's GPU time, beside that of the container's processes. Sums are
 * of the last seconds, older ones with less weight.
 */
struct limiter_audit {
    bool begun;
    uint64_t at, agent_ns, ledger_ns; /* when it was last made, and both counts then */
    int64_t own_ns, own_raw_ns; /* of this process since: with what is corrected, and without */
    double agent_sum, ledger_sum, own_sum, own_raw_sum;
    int64_t rest_ns; /* what the agent counted beyond the ledgers since it began */
    int64_t owed_ns; /* of it, set anew each time: for the next launches; negative: to be spared */
    double factor;   /* of the agent's count to ours */
};

/* Compares both counts where that is due; nothing is corrected while the card has no other tenant.
 */
void limiter_audit(struct limiter_audit *audit, const struct compute_limits *limits,
                   uint32_t others, uint64_t longest_ns, uint64_t now);
/* The amount to add to a charge of `ns` for earlier ones. */
int64_t limiter_audit_take(struct limiter_audit *audit, int64_t ns);

#endif
