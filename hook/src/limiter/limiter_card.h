/* Inside the limiter: one card's account. Callers hold the limiter's lock. */
#ifndef HOOK_LIMITER_CARD_H
#define HOOK_LIMITER_CARD_H

#include "limiter/gpu_timer.h"
#include "limiter/limiter_audit.h"

struct limiter_card {
    bool known;
    CUuuid uuid;
    struct compute_limits limits;
    uint64_t refresh_at;
    uint32_t percent;   /* in force: the share, or the burst's ceiling */
    uint32_t others;    /* that are known to use the card now */
    int64_t charged_ns; /* GPU time charged, and not yet entered */
    /* Measured, or estimated between pairs, and not yet entered: with the agent's correction, and
     * without. */
    int64_t busy_ns, measured_ns;
    uint64_t open_ns;      /* of launches of unknown length, by the last entry */
    uint64_t throttled_ns; /* waited, and not yet entered */
    uint64_t paid_until;   /* the bucket at the last entry */
    uint64_t entered_at;
    uint64_t longest_ns; /* of the launches lately */
    uint64_t busy_since; /* since when nothing has shown that the card ran out of our work */
    struct limiter_audit audit;
};

/* Reads the limits again where that is due. CUDA_SUCCESS or NOT_PERMITTED. */
CUresult limiter_card_refresh(struct limiter_card *card, void *files, uint64_t now);
/* Enters the charge and the measured time, and that the process wants the card. */
void limiter_card_enter(struct limiter_card *card, void *files, uint64_t now);
/* The same, once the sum is large enough. */
void limiter_card_enter_some(struct limiter_card *card, void *files, uint64_t now);
/* The wall time until the container's launches are paid for, by its ledger or by the agent's
 * account; negative: it has saved so much up. */
int64_t limiter_card_ahead_ns(const struct limiter_card *card, uint64_t now);
/* The ratio of the agent's count to ours. */
double limiter_card_factor(const struct limiter_card *card);
/* Charges a launch. */
void limiter_card_charge(struct limiter_card *card, uint64_t ns);
/* The measured time of launches. */
void limiter_card_settle(struct limiter_card *card, const struct gpu_timer_bill *bill);

#endif
