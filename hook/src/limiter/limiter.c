#include "limiter/limiter.h"

#include <string.h>

#include "limiter/bucket.h"
#include "limiter/limiter_settle.h"
#include "shared/clock.h"

/* A launch waits from here on, and then until half of it: a bursting container has no more queued,
 * and the card has work while the waiter wakes up. */
#define QUEUE_NS ((int64_t)(10 * NS_PER_MS))
/* Long launches come this part of their length earlier: where the shares of a card make a whole,
 * idle time is lost for good. */
enum { EARLY_PART = 4 };
/* A waiting thread reads limits and activity again this often. */
#define LOOK_AGAIN_NS (100 * NS_PER_MS)
/* The charge of a launch of unknown length until it is known. */
#define UNKNOWN_NS (50 * NS_PER_US)
/* A launch that must be measured, or whose function was never, waits until it can be: unmeasured,
 * it would be charged next to nothing. It waits no longer: a kernel that runs may wait for it. */
#define UNKNOWN_WAIT_NS GPU_TIMER_UNKNOWN_NS
#define UNKNOWN_LOOK_NS (50 * NS_PER_US)
#define UNKNOWN_LOOK_MAX_NS (10 * NS_PER_MS)
#define POLL_NS (500 * NS_PER_US)
/* Pairs are further apart than this only without launches. */
#define PAUSE_NS (10 * NS_PER_MS)
/* For so long an unlimited card is left alone. */
#define FREE_NS (10 * NS_PER_MS)

/* How a launch waits. */
struct wait {
    uint64_t until;    /* 0: no wait */
    uint64_t first_ns; /* planned so far, to be measured or for the first of its kind */
    uint64_t look_ns;  /* the step of those */
    bool rested;       /* the wait for the bucket */
};

static uint32_t find_card(struct limiter *limiter, const CUuuid *uuid) {
    uint32_t place = 0;
    while (place < VCUDA_MAX_CARDS - 1 && limiter->cards[place].known &&
           memcmp(&limiter->cards[place].uuid, uuid, sizeof *uuid) != 0) {
        place++;
    }
    if (!limiter->cards[place].known) {
        limiter->cards[place].known = true;
        limiter->cards[place].uuid = *uuid;
    }
    return place;
}

static struct limiter_context *find_context(struct limiter *limiter,
                                            const struct current_context *current) {
    struct limiter_context *place = NULL;
    for (unsigned i = 0; i < LIMITER_CONTEXTS; i++) {
        struct limiter_context *limited = &limiter->contexts[i];
        if (limited->context == current->handle && limited->timer.driver == current->driver) {
            return limited;
        }
        place = place == NULL && limited->context == NULL ? limited : place;
    }
    if (place != NULL) {
        memset(place, 0, sizeof *place);
        place->context = current->handle;
        place->device = current->device;
        place->card = find_card(limiter, &current->uuid);
        place->timer.driver = (struct driver *)(uintptr_t)current->driver;
    }
    return place;
}

struct limiter_context *limiter_context_of(struct limiter *limiter,
                                           const struct current_context *current) {
    lock_take(&limiter->lock);
    struct limiter_context *limited = find_context(limiter, current);
    lock_release(&limiter->lock);
    return limited;
}

static bool is_unknown(const struct gpu_timer_estimate *estimate, uint64_t estimated_ns) {
    return estimated_ns == 0 && estimate->measured == 0;
}

/* Whether the launch waits for others to be measured: for UNKNOWN_WAIT_NS in all, at most. */
static bool await_measure(struct wait *wait, const struct gpu_timer *timer,
                          struct gpu_timer_keys *keys, const struct gpu_timer_estimate *estimate,
                          uint64_t now) {
    if (wait->first_ns >= UNKNOWN_WAIT_NS) { /* measurements that are lost don't hold up others */
        gpu_timer_keys_function(keys, estimate->key.function)->pending = 0;
        return false;
    }
    if (gpu_timer_can_launch(timer, keys, estimate)) {
        return false;
    }
    wait->look_ns = wait->look_ns == 0 ? UNKNOWN_LOOK_NS : wait->look_ns * 2;
    wait->look_ns = wait->look_ns < UNKNOWN_LOOK_MAX_NS ? wait->look_ns : UNKNOWN_LOOK_MAX_NS;
    wait->until = now + wait->look_ns;
    wait->first_ns += wait->look_ns;
    return true;
}

/* Whether the launch waits for the bucket. */
static bool await_bucket(struct limiter *limiter, struct limiter_card *card, struct wait *wait,
                         uint64_t now) {
    int64_t early = 0;
    if (card->limits.siblings == 0 && card->limits.burst_percent <= card->limits.percent) {
        early = bucket_wall_ns((int64_t)card->longest_ns, card->percent) / EARLY_PART;
    }
    int64_t bound = early + (wait->rested ? QUEUE_NS / 2 : QUEUE_NS);
    if (limiter_card_ahead_ns(card, now) > bound && now != card->entered_at) {
        limiter_card_enter(card, limiter->files, now); /* other processes may have moved it */
    }
    int64_t ahead = limiter_card_ahead_ns(card, now);
    if (ahead <= bound) {
        return false;
    }
    uint64_t rest = (uint64_t)(ahead - early - QUEUE_NS / 2);
    wait->rested = true;
    wait->until = now + (rest < LOOK_AGAIN_NS ? rest : LOOK_AGAIN_NS);
    return true;
}

/* Whether the context may have left the card without work. Of short launches no pair is under way
 * most of the time; that says nothing. */
static bool had_nothing(struct limiter_context *limited, uint64_t now) {
    bool paused = limited->timer.in_use == 0 && now - limited->launched_at > PAUSE_NS;
    bool idle = paused || limited->timer.was_idle;
    limited->timer.was_idle = false;
    return idle;
}

/* With the lock held: charges the launch, or returns the time of the next try. */
static CUresult decide(struct limiter *limiter, struct limiter_context *limited,
                       const struct gpu_timer_work *work, uint64_t now, struct wait *wait,
                       struct limiter_launch *launch) {
    struct limiter_card *card = limiter_card_of(limiter, limited);
    wait->until = 0;
    CUresult result = limiter_card_refresh(card, limiter->files, now);
    if (result != CUDA_SUCCESS || !card->limits.counted) {
        return result;
    }
    if (card->limits.percent >= 100) {
        limiter_card_enter(card, limiter->files, now); /* that it wants the card */
        atomic_store(&limited->free_until, now + FREE_NS);
        return CUDA_SUCCESS;
    }
    if (had_nothing(limited, now)) {
        card->busy_since = now;
    }
    limiter_card_enter_some(card, limiter->files, now);
    struct gpu_timer_estimate *estimate =
        gpu_timer_keys_find(&limiter->keys, work->key, work->threads);
    uint64_t ns =
        gpu_timer_estimate_ns(&limiter->keys, estimate, work->threads, limiter_card_factor(card));
    bool known = !is_unknown(estimate, ns);
    if (await_measure(wait, &limited->timer, &limiter->keys, estimate, now)) {
        return CUDA_SUCCESS;
    }
    if (!known) { /* the one that it waited for has run for as long, and so may this one */
        ns = wait->first_ns > UNKNOWN_NS ? wait->first_ns : UNKNOWN_NS;
    }
    if (!await_bucket(limiter, card, wait, now)) {
        wait->until = 0;
        gpu_timer_launch(&limited->timer, &limiter->keys, work, estimate, ns, now, &launch->timer);
        limiter_card_charge(card, launch->timer.charge.charged_ns);
        card->longest_ns = known && ns > card->longest_ns ? ns : card->longest_ns;
        limited->launched_at = now;
        limiter_card_enter_some(card, limiter->files, now);
        if (!known) {
            limiter_enter_open(limiter, card, now);
        }
        launch->counted = true;
    }
    return CUDA_SUCCESS;
}

static void rest(struct limiter *limiter, struct limiter_context *limited, uint64_t now,
                 uint64_t until) {
    clock_sleep_until(until);
    uint64_t woken = clock_now();
    lock_take(&limiter->lock);
    limiter_card_of(limiter, limited)->throttled_ns += woken - now;
    lock_release(&limiter->lock);
    limiter_poll(limiter, limited, woken);
}

CUresult limiter_begin(struct limiter *limiter, struct limiter_context *limited,
                       const struct gpu_timer_work *work, struct limiter_launch *launch) {
    struct wait wait = {.until = 0};
    launch->counted = false;
    for (;;) {
        uint64_t now = clock_now();
        if (atomic_load(&limited->timer.in_use) != 0 &&
            now - atomic_load(&limited->timer.polled_at) >= POLL_NS) {
            limiter_poll(limiter, limited, now);
        }
        lock_take(&limiter->lock);
        CUresult result = decide(limiter, limited, work, now, &wait, launch);
        lock_release(&limiter->lock);
        if (result != CUDA_SUCCESS || wait.until == 0) {
            if (launch->counted) {
                gpu_timer_events_before(&limited->timer, &limiter->keys, &limiter->lock, work,
                                        &launch->timer);
            }
            return result;
        }
        rest(limiter, limited, now, wait.until);
    }
}

void limiter_end(struct limiter *limiter, struct limiter_context *limited,
                 const struct gpu_timer_work *work, const struct limiter_launch *launch,
                 CUresult result) {
    if (!launch->counted) {
        return;
    }
    if (result == CUDA_SUCCESS) {
        gpu_timer_events_after(&limited->timer, &limiter->keys, &limiter->lock, work,
                               &launch->timer);
        gpu_timer_launched(&limited->timer, &launch->timer);
        return;
    }
    gpu_timer_launched(&limited->timer, &launch->timer);
    lock_take(&limiter->lock);
    gpu_timer_cancel(&limited->timer, &limiter->keys, &launch->timer);
    limiter_card_of(limiter, limited)->charged_ns -= (int64_t)launch->timer.charge.charged_ns;
    lock_release(&limiter->lock);
}
