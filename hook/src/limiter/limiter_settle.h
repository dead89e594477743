/* The end of launches: their times become charges. */
#ifndef HOOK_LIMITER_SETTLE_H
#define HOOK_LIMITER_SETTLE_H

#include "limiter/limiter.h"

struct limiter_card *limiter_card_of(struct limiter *limiter,
                                     const struct limiter_context *limited);
/* Enters what launches of unknown length may cost, where their number has changed. The caller holds
 * the limiter's lock. */
void limiter_enter_open(struct limiter *limiter, struct limiter_card *card, uint64_t now);
/* Settles launches of the current context that are over. */
void limiter_poll(struct limiter *limiter, struct limiter_context *limited, uint64_t now);

/* The same of any contexts of the device: one, or all where `context` is NULL; of all devices where
 * `driver` is NULL. */
void limiter_settle(struct limiter *limiter, const struct driver *driver, CUcontext context,
                    CUdevice device);
/* The same contexts have ended, with their events. */
void limiter_forget(struct limiter *limiter, const struct driver *driver, CUcontext context,
                    CUdevice device);

#endif
