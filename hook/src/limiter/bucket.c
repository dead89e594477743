#include "limiter/bucket.h"

static uint64_t at_least(uint64_t value, uint64_t floor) { return value < floor ? floor : value; }

static uint64_t at_most(uint64_t value, uint64_t cap) { return value < cap ? value : cap; }

static uint64_t move(uint64_t paid, uint64_t now, int64_t wall_ns, uint64_t credit_ns) {
    uint64_t earliest = now > credit_ns ? now - credit_ns : 0;
    uint64_t latest = now + BUCKET_DEBT_MAX_NS;
    paid = at_most(at_least(paid, earliest), latest);
    if (wall_ns >= 0) {
        return at_most(paid + at_most((uint64_t)wall_ns, BUCKET_DEBT_MAX_NS + credit_ns), latest);
    }
    uint64_t refund = (uint64_t)-wall_ns;
    return refund > paid - earliest ? earliest : paid - refund;
}

uint64_t bucket_charge(_Atomic uint64_t *paid_until, uint64_t now, int64_t wall_ns,
                       uint64_t credit_ns) {
    uint64_t before = atomic_load(paid_until);
    uint64_t after;
    do {
        after = move(before, now, wall_ns, credit_ns);
    } while (after != before && !atomic_compare_exchange_weak(paid_until, &before, after));
    return after;
}

int64_t bucket_wall_ns(int64_t gpu_ns, uint32_t percent) { return gpu_ns * 100 / (int64_t)percent; }
