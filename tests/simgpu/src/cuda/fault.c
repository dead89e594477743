/* Injected faults: from SIMGPU_FAULTS (several parted by ';') for one process, and from `simgpu
 * fault` for all of a machine. A process counts its own calls, from when the fault was set. */
#include "state/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "entry.h"

struct counted {
    struct sim_fault fault;
    uint32_t calls;
};

/* Guarded by `lock`; calls pass without it until the first fault (is_quiet). */
static struct {
    pthread_mutex_t lock;
    bool read;
    struct counted own[SIM_FAULTS_MAX], shared[SIM_FAULTS_MAX];
    unsigned own_count, shared_count;
    uint64_t seen; /* sim_state.fault_change */
} faults = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void read_environment(void) {
    const char *text = getenv("SIMGPU_FAULTS");
    char copy[1024], error[128], *rest = copy;
    __atomic_store_n(&faults.read, true, __ATOMIC_RELEASE);
    if (!text)
        return;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *one; (one = strsep(&rest, ";")) && faults.own_count < SIM_FAULTS_MAX;) {
        struct counted *next = &faults.own[faults.own_count];
        if (!one[strspn(one, " ")])
            continue;
        if (sim_fault_parse(one, &next->fault, error, sizeof error))
            faults.own_count++;
        else
            fprintf(stderr, "SIMGPU_FAULTS: %s\n", error); /* a test's mistake */
    }
}

static void read_state(struct sim_state *state) {
    if (__atomic_load_n(&state->fault_change, __ATOMIC_ACQUIRE) == faults.seen)
        return;
    sim_lock(state);
    faults.seen = state->fault_change;
    faults.shared_count = state->fault_count;
    for (unsigned i = 0; i < faults.shared_count; i++)
        faults.shared[i] = (struct counted){.fault = state->faults[i]};
    sim_unlock(state);
}

static bool is_quiet(const struct sim_state *state) {
    bool none = __atomic_load_n(&faults.read, __ATOMIC_ACQUIRE) && faults.own_count == 0;
    return none && (!state || __atomic_load_n(&state->fault_change, __ATOMIC_ACQUIRE) == 0);
}

/* Counts a call; adds up the effects of its faults. */
static void meet(struct counted *list, unsigned count, const char *symbol, CUresult *rc,
                 uint64_t *delay_us) {
    for (unsigned i = 0; i < count; i++) {
        struct counted *at = &list[i];
        if (at->fault.missing || !sim_fault_meets(&at->fault, symbol))
            continue;
        uint32_t call = ++at->calls;
        if (call < at->fault.nth || (at->fault.count && call - at->fault.nth >= at->fault.count))
            continue;
        *delay_us += at->fault.delay_us;
        if (at->fault.result)
            *rc = (CUresult)at->fault.result;
    }
}

static void refresh(struct sim_state *state) {
    if (!faults.read)
        read_environment();
    if (state)
        read_state(state);
}

CUresult fault_check(const char *symbol) {
    CUresult rc = CUDA_SUCCESS;
    uint64_t delay_us = 0;
    if (is_quiet(driver.state))
        return rc;
    pthread_mutex_lock(&faults.lock);
    refresh(driver.state);
    meet(faults.own, faults.own_count, symbol, &rc, &delay_us);
    meet(faults.shared, faults.shared_count, symbol, &rc, &delay_us);
    pthread_mutex_unlock(&faults.lock);
    if (delay_us) {
        struct timespec pause = {(time_t)(delay_us / 1000000), (long)(delay_us % 1000000) * 1000};
        nanosleep(&pause, NULL);
    }
    return rc;
}

static bool hides(const struct counted *list, unsigned count, const char *symbol) {
    for (unsigned i = 0; i < count; i++)
        if (list[i].fault.missing && sim_fault_meets(&list[i].fault, symbol))
            return true;
    return false;
}

/* Also before cuInit: cuGetProcAddress works then. */
bool fault_hides(const char *symbol) {
    struct sim_state *state = sim_state_map();
    if (is_quiet(state))
        return false;
    pthread_mutex_lock(&faults.lock);
    refresh(state);
    bool hidden = hides(faults.own, faults.own_count, symbol) ||
                  hides(faults.shared, faults.shared_count, symbol);
    pthread_mutex_unlock(&faults.lock);
    return hidden;
}
