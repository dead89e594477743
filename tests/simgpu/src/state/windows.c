#include "windows.h"

#include <string.h>
#include <sys/stat.h>

#define QUARTER_NS 250000000ULL
#define SECOND_NS 1000000000ULL
#define SIXTH_NS 166666667ULL
#define LATE_NS 200000000ULL

/* `resident` where the process has ended: its place in the ring of those. */
static int32_t ended_resident(uint64_t place) { return -2 - (int32_t)place; }

static bool by_samples(const struct sim_state *state) {
    return state->timing.counting == SIM_COUNT_SAMPLES ||
           state->timing.counting == SIM_COUNT_SAMPLES_LAST;
}

uint64_t sim_window_ns(const struct sim_state *state) {
    if (by_samples(state))
        return SIXTH_NS;
    return state->timing.counting == SIM_COUNT_SECONDS ? SECOND_NS : QUARTER_NS;
}

uint64_t sim_windows_told_ns(const struct sim_state *state, uint32_t card) {
    uint64_t clock_ns = state->cards[card].clock_ns;
    return state->timing.counting == SIM_COUNT_LATE ? clock_ns - LATE_NS : clock_ns;
}

void sim_windows_run(struct sim_state *state, uint32_t card, int client, uint32_t micros) {
    struct sim_card *line = &state->cards[card];
    size_t slot = line->window % SIM_WINDOWS;
    line->busy_us[slot] += micros;
    line->resident = client;
    if (!by_samples(state))
        state->clients[client].use[card].busy_us[slot] += micros;
}

/* The counts of a sample's owner, or NULL. */
static uint32_t *counts_of(struct sim_state *state, uint32_t card, int owner) {
    if (owner >= 0)
        return state->clients[owner].use[card].busy_us;
    return owner == -1 ? NULL : state->cards[card].ended[-2 - owner].busy_us;
}

static void take_sample(struct sim_state *state, uint32_t card, int on_card) {
    const struct sim_card *line = &state->cards[card];
    bool last = on_card < 0 && state->timing.counting == SIM_COUNT_SAMPLES_LAST;
    uint32_t *counts = counts_of(state, card, last ? line->resident : on_card);
    if (counts)
        counts[line->window % SIM_WINDOWS] = line->busy_us[line->window % SIM_WINDOWS];
}

static void clear(struct sim_state *state, uint32_t card, size_t slot) {
    struct sim_card *line = &state->cards[card];
    line->busy_us[slot] = 0;
    for (int client = 0; client < SIM_CLIENTS_MAX; client++)
        if (state->clients[client].in_use)
            state->clients[client].use[card].busy_us[slot] = 0;
    for (uint64_t i = 0; i < line->ended_count && i < SIM_ENDED_MAX; i++)
        line->ended[i].busy_us[slot] = 0;
}

void sim_windows_enter(struct sim_state *state, uint32_t card, uint64_t window, int on_card) {
    struct sim_card *line = &state->cards[card];
    if (by_samples(state) && window > line->window)
        take_sample(state, card, on_card);
    uint64_t gone = window - line->window;
    for (uint64_t i = 1; i <= gone && i <= SIM_WINDOWS; i++)
        clear(state, card, (line->window + i) % SIM_WINDOWS);
    line->window = window;
}

void sim_windows_end(struct sim_state *state, int client) {
    const struct sim_client *owner = &state->clients[client];
    for (uint32_t card = 0; card < state->card_count; card++) {
        struct sim_card *line = &state->cards[card];
        if (!owner->use[card].progress_ns)
            continue; /* never ran here */
        uint64_t place = line->ended_count % SIM_ENDED_MAX;
        if (line->resident == ended_resident(place))
            line->resident = -1;
        struct sim_ended *ended = &line->ended[place];
        ended->pid = owner->pid;
        ended->pid_namespace = owner->pid_namespace;
        memcpy(ended->busy_us, owner->use[card].busy_us, sizeof ended->busy_us);
        line->ended_count++;
        if (line->resident == client)
            line->resident = ended_resident(place);
    }
}

uint64_t sim_windows_busy_us(const struct sim_state *state, uint32_t card, const uint32_t *busy,
                             uint64_t since_ns, uint64_t until_ns, uint64_t *span_us,
                             uint64_t *end_ns) {
    const struct sim_card *line = &state->cards[card];
    uint64_t length_ns = sim_window_ns(state), sum = 0, span_ns = 0;
    uint64_t first = line->window > SIM_WINDOWS - 1 ? line->window - (SIM_WINDOWS - 1) : 0;
    *end_ns = 0;
    for (uint64_t window = first; window < line->window; window++) {
        uint64_t end = (window + 1) * length_ns;
        if (end <= since_ns || end > until_ns)
            continue;
        sum += busy[window % SIM_WINDOWS];
        span_ns += length_ns;
        *end_ns = end;
    }
    *span_us = span_ns / 1000;
    return sum;
}

uint64_t sim_pid_namespace(void) {
    struct stat info;
    return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}
