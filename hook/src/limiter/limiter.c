#include "limiter/limiter.h"

#include <string.h>

#include "limiter/bucket.h"
#include "limiter/limiter_card.h"
#include "shared/clock.h"

/* A launch waits from here on, and then until half of it: a bursting container has no more queued,
 * and the card doesn't run dry while the waiter wakes up. */
#define QUEUE_NS ((int64_t)(10 * NS_PER_MS))
/* Long launches come this part of their length earlier: where the shares of a card make a whole,
 * time that it once was idle is lost for good. */
enum { EARLY_PART = 4 };
/* Who waits looks again whether limits or the agent's word have changed. */
#define LOOK_AGAIN_NS (100 * NS_PER_MS)
/* What a launch of unknown length is charged until it is known. */
#define UNKNOWN_NS (50 * NS_PER_US)
/* A second launch of unknown length waits for the first, and one that no pair is free for waits for
 * a pair: what is neither known nor measured would be charged next to nothing, however long it is.
 * But no longer than this: it may be what those wait for. */
#define UNKNOWN_WAIT_NS (1 * NS_PER_S)
#define UNKNOWN_LOOK_NS (50 * NS_PER_US)
#define UNKNOWN_LOOK_MAX_NS (10 * NS_PER_MS)
#define POLL_NS (500 * NS_PER_US)
/* Pairs are further apart than this only where nothing is launched. */
#define PAUSE_NS (10 * NS_PER_MS)
/* For how long a card that isn't limited isn't looked at. */
#define FREE_NS (10 * NS_PER_MS)

/* One launch's way to its turn. */
struct wait {
    uint64_t until;    /* 0: no wait */
    uint64_t first_ns; /* it has waited to be measured, or for the first of its kind */
    uint64_t look_ns;  /* the step of those */
    bool rested;       /* it has waited for the bucket */
};

static struct pace_card *card_of(struct pace *pace, const struct pace_lane *lane) {
    return &pace->cards[lane->card];
}

static uint32_t find_card(struct pace *pace, const CUuuid *uuid) {
    uint32_t place = 0;
    while (place < VCUDA_MAX_CARDS - 1 && pace->cards[place].known &&
           memcmp(&pace->cards[place].uuid, uuid, sizeof *uuid) != 0) {
        place++;
    }
    if (!pace->cards[place].known) {
        pace->cards[place].known = true;
        pace->cards[place].uuid = *uuid;
    }
    return place;
}

static struct pace_lane *find_lane(struct pace *pace, const struct seat *seat) {
    struct pace_lane *place = NULL;
    for (unsigned i = 0; i < PACE_LANES; i++) {
        struct pace_lane *lane = &pace->lanes[i];
        if (lane->context == seat->handle && lane->meter.driver == seat->driver) {
            return lane;
        }
        place = place == NULL && lane->context == NULL ? lane : place;
    }
    if (place != NULL) {
        memset(place, 0, sizeof *place);
        place->context = seat->handle;
        place->device = seat->device;
        place->card = find_card(pace, &seat->uuid);
        place->meter.driver = (struct driver *)(uintptr_t)seat->driver;
    }
    return place;
}

struct pace_lane *pace_lane(struct pace *pace, const struct seat *seat) {
    lock_take(&pace->lock);
    struct pace_lane *lane = find_lane(pace, seat);
    lock_release(&pace->lock);
    return lane;
}

void pace_forget(struct pace *pace, const struct driver *driver, CUcontext context,
                 CUdevice device) {
    lock_take(&pace->lock);
    for (unsigned i = 0; i < PACE_LANES; i++) {
        struct pace_lane *lane = &pace->lanes[i];
        if (lane->context != NULL && lane->meter.driver == driver &&
            (context == NULL ? lane->device == device : lane->context == context)) {
            lane->context = NULL;
        }
    }
    lock_release(&pace->lock);
}

static bool is_unknown(const struct meter_estimate *estimate, uint64_t estimated_ns) {
    return estimated_ns == 0 && estimate->measured == 0;
}

/* Whether the launch waits for the first of its kind, or to be that and be measured. That isn't
 * waited for twice. */
static bool await_measure(struct wait *wait, const struct meter *meter,
                          struct meter_estimate *estimate, uint64_t now) {
    if (wait->first_ns >= UNKNOWN_WAIT_NS) {
        estimate->pending = 0;
        return false;
    }
    if (estimate->pending == 0 && meter_can_measure(meter)) {
        return false;
    }
    wait->look_ns = wait->look_ns == 0 ? UNKNOWN_LOOK_NS : wait->look_ns * 2;
    wait->look_ns = wait->look_ns < UNKNOWN_LOOK_MAX_NS ? wait->look_ns : UNKNOWN_LOOK_MAX_NS;
    wait->until = now + wait->look_ns;
    wait->first_ns += wait->look_ns;
    return true;
}

/* Whether the launch waits for the bucket. */
static bool await_bucket(struct pace *pace, struct pace_card *card, struct wait *wait,
                         uint64_t now) {
    int64_t early = 0;
    if (card->terms.siblings == 0 && card->terms.burst_percent <= card->terms.percent) {
        early = bucket_wall_ns((int64_t)card->longest_ns, card->percent) / EARLY_PART;
    }
    int64_t bound = early + (wait->rested ? QUEUE_NS / 2 : QUEUE_NS);
    if (pace_card_ahead_ns(card, now) > bound && now != card->entered_at) {
        pace_card_enter(card, pace->books, now); /* other processes may have moved it */
    }
    int64_t ahead = pace_card_ahead_ns(card, now);
    if (ahead <= bound) {
        return false;
    }
    uint64_t rest = (uint64_t)(ahead - early - QUEUE_NS / 2);
    wait->rested = true;
    wait->until = now + (rest < LOOK_AGAIN_NS ? rest : LOOK_AGAIN_NS);
    return true;
}

/* Whether the lane may have left the card without work. Of short launches no pair is under way most
 * of the time; that says nothing. */
static bool had_nothing(struct pace_lane *lane, uint64_t now) {
    bool paused = lane->meter.in_use == 0 && now - lane->launched_at > PAUSE_NS;
    bool idle = paused || lane->meter.was_idle;
    lane->meter.was_idle = false;
    return idle;
}

/* With the lock held: a launch's turn, or how long to wait until it is asked again. */
static CUresult decide(struct pace *pace, struct pace_lane *lane, const struct meter_work *work,
                       uint64_t now, struct wait *wait, struct pace_turn *turn) {
    struct pace_card *card = card_of(pace, lane);
    wait->until = 0;
    CUresult result = pace_card_refresh(card, pace->books, now);
    if (result != CUDA_SUCCESS || !card->terms.counted) {
        return result;
    }
    if (card->terms.percent >= 100) {
        pace_card_enter(card, pace->books, now); /* that it wants the card */
        atomic_store(&lane->free_until, now + FREE_NS);
        return CUDA_SUCCESS;
    }
    if (had_nothing(lane, now)) {
        card->busy_since = now;
    }
    pace_card_enter_some(card, pace->books, now);
    uint64_t ns = meter_estimate_ns(&pace->keys, work, pace_card_factor(card));
    struct meter_estimate *estimate = meter_keys_find(&pace->keys, work->key, work->threads);
    bool known = !is_unknown(estimate, ns);
    if (!known) {
        if (await_measure(wait, &lane->meter, estimate, now)) {
            return CUDA_SUCCESS;
        }
        ns = wait->first_ns > UNKNOWN_NS ? wait->first_ns : UNKNOWN_NS;
    }
    if (!await_bucket(pace, card, wait, now)) {
        wait->until = 0;
        pace_card_charge(card, ns, known);
        lane->launched_at = now;
        pace_card_enter_some(card, pace->books, now);
        meter_launch(&lane->meter, &pace->keys, work, ns, now, &turn->meter);
        turn->counted = true;
    }
    return CUDA_SUCCESS;
}

static void poll(struct pace *pace, struct pace_lane *lane, uint64_t now) {
    struct pace_card *card = card_of(pace, lane);
    atomic_store(&lane->meter.polled_at, now);
    lock_take(&pace->lock);
    const struct meter_company company = {.others = card->others, .factor = pace_card_factor(card)};
    lock_release(&pace->lock);
    struct meter_bill bill = meter_events_poll(&lane->meter, &pace->keys, &pace->lock, company);
    lock_take(&pace->lock);
    pace_card_settle(card, &bill);
    lock_release(&pace->lock);
}

static void rest(struct pace *pace, struct pace_lane *lane, uint64_t now, uint64_t until) {
    clock_sleep_until(until);
    uint64_t woken = clock_now();
    lock_take(&pace->lock);
    card_of(pace, lane)->throttled_ns += woken - now;
    lock_release(&pace->lock);
    poll(pace, lane, woken);
}

CUresult pace_before(struct pace *pace, struct pace_lane *lane, const struct meter_work *work,
                     struct pace_turn *turn) {
    struct wait wait = {.until = 0};
    turn->counted = false;
    for (;;) {
        uint64_t now = clock_now();
        if (atomic_load(&lane->meter.in_use) != 0 &&
            now - atomic_load(&lane->meter.polled_at) >= POLL_NS) {
            poll(pace, lane, now);
        }
        lock_take(&pace->lock);
        CUresult result = decide(pace, lane, work, now, &wait, turn);
        lock_release(&pace->lock);
        if (result != CUDA_SUCCESS || wait.until == 0) {
            if (turn->counted) {
                meter_events_before(&lane->meter, &pace->keys, &pace->lock, work, &turn->meter);
            }
            return result;
        }
        rest(pace, lane, now, wait.until);
    }
}

void pace_after(struct pace *pace, struct pace_lane *lane, const struct meter_work *work,
                const struct pace_turn *turn, CUresult result) {
    if (!turn->counted) {
        return;
    }
    uint64_t now = clock_now();
    if (meter_is_late(&turn->meter, now)) {
        poll(pace, lane, now);
        lock_take(&pace->lock);
        meter_came_late(&lane->meter, &turn->meter, now);
        lock_release(&pace->lock);
    }
    if (result == CUDA_SUCCESS) {
        meter_events_after(&lane->meter, &pace->keys, &pace->lock, work, &turn->meter);
        meter_launched(&lane->meter, &turn->meter);
        return;
    }
    meter_launched(&lane->meter, &turn->meter);
    lock_take(&pace->lock);
    meter_cancel(&lane->meter, &pace->keys, &turn->meter);
    card_of(pace, lane)->charged_ns -= (int64_t)turn->meter.charged_ns;
    lock_release(&pace->lock);
}
