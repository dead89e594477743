#include "xids.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The low half of the counter is the futex (we are little-endian). */
static uint32_t *futex_word(struct sim_state *state) { return (uint32_t *)&state->xid_count; }

void sim_xid_raise(struct sim_state *state, uint32_t card, uint32_t xid) {
    sim_lock(state);
    state->xids[state->xid_count % SIM_XIDS_MAX] = (struct sim_xid){.card = card, .xid = xid};
    __atomic_store_n(&state->xid_count, state->xid_count + 1, __ATOMIC_RELEASE);
    sim_unlock(state);
    syscall(SYS_futex, futex_word(state), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sim_xid_wait(struct sim_state *state, uint64_t seen, unsigned timeout_ms) {
    uint64_t end_ns = sim_now_ns() + timeout_ms * 1000000ULL;
    while (__atomic_load_n(&state->xid_count, __ATOMIC_ACQUIRE) == seen) {
        uint64_t now_ns = sim_now_ns();
        if (now_ns >= end_ns)
            return;
        uint64_t left = end_ns - now_ns;
        struct timespec pause = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
        syscall(SYS_futex, futex_word(state), FUTEX_WAIT, (uint32_t)seen, &pause, NULL, 0);
    }
}
