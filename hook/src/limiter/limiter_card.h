/* Inside the limiter: one card's account. Callers hold the limiter's lock. */
#ifndef HOOK_LIMITER_CARD_H
#define HOOK_LIMITER_CARD_H

#include "limiter/limiter.h"

/* Reads the limits again where that is due. CUDA_SUCCESS or NOT_PERMITTED. */
CUresult limiter_card_refresh(struct limiter_card *card, void *files, uint64_t now);
/* Enters what was charged and measured, and that the process wants the card. */
void limiter_card_enter(struct limiter_card *card, void *files, uint64_t now);
/* The same where enough has come together. */
void limiter_card_enter_some(struct limiter_card *card, void *files, uint64_t now);
/* How far the container is ahead of what it has paid for, in wall time; negative: behind. */
int64_t limiter_card_ahead_ns(const struct limiter_card *card, uint64_t now);
/* How the agent's count compares to ours. */
double limiter_card_factor(const struct limiter_card *card);
/* Charges a launch. Not known: for as long as it waited to be measured, which is no length. */
void limiter_card_charge(struct limiter_card *card, uint64_t ns, bool known);
/* What launches took in the end. */
void limiter_card_settle(struct limiter_card *card, const struct gpu_timer_bill *bill);

/* limiter_audit.c. Makes the account where that is due; nothing is corrected while there is nobody
 * else on the card. */
void limiter_audit(struct limiter_audit *audit, const struct compute_limits *limits,
                   uint32_t others, uint64_t longest_ns, uint64_t now);
/* What is to be added to a charge of `ns` for earlier ones. */
int64_t limiter_audit_take(struct limiter_audit *audit, int64_t ns);

#endif
