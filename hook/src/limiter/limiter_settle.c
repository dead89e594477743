#include "limiter/limiter_settle.h"

#include "loader/drivers.h"
#include "shared/clock.h"

struct limiter_card *limiter_card_of(struct limiter *limiter,
                                     const struct limiter_context *limited) {
    return &limiter->cards[limited->card];
}

void limiter_enter_open(struct limiter *limiter, struct limiter_card *card, uint64_t now) {
    unsigned unknown = 0;
    for (unsigned i = 0; i < LIMITER_CONTEXTS; i++) {
        struct limiter_context *limited = &limiter->contexts[i];
        bool counts = limited->context != NULL && limiter_card_of(limiter, limited) == card;
        unknown += counts ? limited->timer.unknown : 0;
    }
    if (card->open_ns != unknown * GPU_TIMER_UNKNOWN_NS) {
        card->open_ns = unknown * GPU_TIMER_UNKNOWN_NS;
        limiter_card_enter(card, limiter->files, now);
    }
}

void limiter_poll(struct limiter *limiter, struct limiter_context *limited, uint64_t now) {
    struct limiter_card *card = limiter_card_of(limiter, limited);
    atomic_store(&limited->timer.polled_at, now);
    lock_take(&limiter->lock);
    const struct gpu_timer_sharing sharing = {.others = card->others,
                                              .factor = limiter_card_factor(card)};
    lock_release(&limiter->lock);
    struct gpu_timer_bill bill =
        gpu_timer_events_poll(&limited->timer, &limiter->keys, &limiter->lock, sharing);
    lock_take(&limiter->lock);
    limiter_card_settle(card, &bill);
    if (card->open_ns != 0) {
        limiter_enter_open(limiter, card, now);
    }
    lock_release(&limiter->lock);
}

static bool is_of(const struct limiter_context *limited, const struct driver *driver,
                  CUcontext context, CUdevice device) {
    return limited->context != NULL &&
           (driver == NULL ||
            (limited->timer.driver == driver &&
             (context == NULL ? limited->device == device : limited->context == context)));
}

/* The caller may have another context, or none. */
static void settle_in_context(struct limiter *limiter, struct limiter_context *limited) {
    cuCtxPushCurrent_v2_fn *push = REAL(limited->timer.driver, cuCtxPushCurrent_v2);
    cuCtxPopCurrent_v2_fn *pop = REAL(limited->timer.driver, cuCtxPopCurrent_v2);
    CUcontext old;
    if (push != NULL && pop != NULL && push(limited->context) == CUDA_SUCCESS) {
        limiter_poll(limiter, limited, clock_now());
        pop(&old);
    }
}

void limiter_settle(struct limiter *limiter, const struct driver *driver, CUcontext context,
                    CUdevice device) {
    for (unsigned i = 0; i < LIMITER_CONTEXTS; i++) {
        struct limiter_context *limited = &limiter->contexts[i];
        if (atomic_load(&limited->timer.in_use) == 0) {
            continue; /* without the lock: each synchronise comes here, and mostly finds nothing */
        }
        lock_take(&limiter->lock);
        bool settles = is_of(limited, driver, context, device);
        lock_release(&limiter->lock);
        if (settles) {
            settle_in_context(limiter, limited);
        }
    }
}

void limiter_forget(struct limiter *limiter, const struct driver *driver, CUcontext context,
                    CUdevice device) {
    uint64_t now = clock_now();
    lock_take(&limiter->lock);
    for (unsigned i = 0; i < LIMITER_CONTEXTS; i++) {
        struct limiter_context *limited = &limiter->contexts[i];
        if (is_of(limited, driver, context, device)) {
            struct limiter_card *card = limiter_card_of(limiter, limited);
            card->charged_ns += (int64_t)gpu_timer_open_ns(&limited->timer, now);
            limited->context = NULL;
            limiter_enter_open(limiter, card, now);
            if (card->percent != 0) { /* what was settled just now, too, if anything was launched */
                limiter_card_enter(card, limiter->files, now);
            }
        }
    }
    lock_release(&limiter->lock);
}
