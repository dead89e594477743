/*
 * The agent of the simulation, and NVML as it counts GPU time of processes: in whole percent of the
 * time since it was asked last, up to where its last window of 1/6 s (or 1 s, on some cards) ended.
 *
 * Drivers take such a window's use for that of the one process that was on the card when it ended
 * (NVIDIA's open kernel modules: ctrl2080perf.h, NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE, and
 * gpu_acct.c). Of cards that are shared by slices of 2 ms that is a draw, and --drawn plays it.
 */
#include <string.h>

#include "sim.h"

#define WANT_NS NS_PER_S
#define KEPT 0.9
#define MEASURED_MOST 8
#define LOOK_EVERY_NS (SIM_LOOK * SIM_TICK_NS)

static bool wants(unsigned tenant, uint64_t now) {
    for (unsigned i = 0; i < world.count; i++) {
        const struct sim_process *process = &world.processes[i];
        if (process->tenant == tenant && process->last_want_ns != 0 &&
            process->last_want_ns + WANT_NS > now) {
            return true;
        }
    }
    return false;
}

uint64_t sim_window_left(void) { return world.window_ends - world.card_now; }

void sim_window_passed(unsigned tenant) {
    for (; world.window_ends <= world.card_now; world.window_ends += SIM_WINDOW_NS) {
        uint64_t used = world.window_used_ns < SIM_WINDOW_NS ? world.window_used_ns : SIM_WINDOW_NS;
        world.containers[tenant].drawn_ns += used;
        world.window_used_ns = 0;
    }
}

static uint64_t claimed(unsigned tenant) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < world.count; i++) {
        sum += world.processes[i].tenant == tenant ? world.processes[i].busy_ns : 0;
    }
    return sum;
}

static void push(uint64_t *ticks, uint64_t newest) {
    memmove(ticks, ticks + 1, (SIM_TICKS - 1) * sizeof *ticks);
    ticks[SIM_TICKS - 1] = newest;
}

static double within(double value, double least, double most) {
    return value < least ? least : value > most ? most : value;
}

static double since_look(const uint64_t *ticks) {
    unsigned until = SIM_TICKS - 1 - world.run->lag;
    return (double)(ticks[until] - ticks[until - SIM_LOOK]);
}

/* What all counts are beyond all claims: the sums, of which a look weighs nine tenths of the next.
 */
static double unexplained(void) {
    double sum = 0;
    for (unsigned i = 0; i < world.run->tenants; i++) {
        struct sim_container *container = &world.containers[i];
        container->counts_ns = container->counts_ns * KEPT + since_look(container->busy_ns);
        container->claims_ns = container->claims_ns * KEPT + since_look(container->measured_at_ns);
        sum += container->counts_ns - container->claims_ns;
    }
    return sum;
}

/* The count since the last look, as far as ledgers leave room for it
 * (gpustack/agent/activity/gpu_time_accounts.py: a driver that isn't known to count well). */
static double believed(struct sim_container *container, double rest) {
    double claims = container->claims_ns;
    bool seen = container->counts_ns * MEASURED_MOST >= claims;
    double room = claims + (rest > 0 || seen ? rest : 0);
    double sum = rest < 0 ? within(container->counts_ns, room, claims)
                          : within(container->counts_ns, claims, room);
    double before = container->beliefs_ns * KEPT;
    container->beliefs_ns = sum < before ? before : sum;
    return container->beliefs_ns - before;
}

/* What is known, in whole percent, and what has been added since: as much as before, or, where that
 * no longer holds because a burst has begun or ended, what the container says itself. */
static void tell(struct sim_container *container, double window, uint64_t now) {
    unsigned lag = world.run->lag, until = SIM_TICKS - 1 - lag;
    uint64_t percent = (uint64_t)(window * 100 / (double)LOOK_EVERY_NS + 0.5);
    container->known_ns += percent * (LOOK_EVERY_NS / 100);
    bool changed = now - container->changed_at <= (lag + SIM_LOOK) * SIM_TICK_NS;
    uint64_t ahead = changed ? container->claimed_ns[SIM_TICKS - 1] - container->claimed_ns[until]
                             : percent * (LOOK_EVERY_NS / 100) * lag / SIM_LOOK;
    uint64_t told = container->known_ns + ahead;
    container->agent_busy_ns = told > container->agent_busy_ns ? told : container->agent_busy_ns;
}

void sim_agent(uint64_t now) {
    unsigned wanting = 0;
    for (unsigned i = 0; i < world.run->tenants; i++) {
        wanting += wants(i, now);
    }
    for (unsigned i = 0; world.run->agent && i < world.run->tenants; i++) {
        struct sim_container *container = &world.containers[i];
        bool allowed = wanting - wants(i, now) == 0;
        container->changed_at = allowed == container->burst_allowed ? container->changed_at : now;
        container->burst_allowed = allowed;
        container->tenants_wanting = wanting;
        push(container->claimed_ns, claimed(i));
        push(container->measured_at_ns, container->measured_ns);
        push(container->busy_ns,
             world.run->drawn ? container->drawn_ns : world.run->tenant[i].busy_ns);
    }
    if (world.run->agent && now % LOOK_EVERY_NS == 0 && !world.run->silent) {
        double rest = unexplained();
        for (unsigned i = 0; i < world.run->tenants; i++) {
            struct sim_container *container = &world.containers[i];
            double window =
                world.run->good ? since_look(container->busy_ns) : believed(container, rest);
            tell(container, window, now);
        }
    }
}
