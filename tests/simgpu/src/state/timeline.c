/* Round robin among the clients with work, worked out lazily, at each look at the card. */
#include "timeline.h"

#include "windows.h"

static uint64_t remaining_ns(const struct sim_state *state, int client, uint32_t card) {
    const struct sim_use *use = &state->clients[client].use[card];
    return use->horizon_ns > use->progress_ns ? use->horizon_ns - use->progress_ns : 0;
}

static bool has_work(const struct sim_state *state, int client, uint32_t card) {
    return state->clients[client].in_use && remaining_ns(state, client, card) > 0;
}

static int next_client(const struct sim_state *state, uint32_t card, int after) {
    for (int step = 1; step <= SIM_CLIENTS_MAX; step++) {
        int client = (after + step + SIM_CLIENTS_MAX) % SIM_CLIENTS_MAX;
        if (has_work(state, client, card))
            return client;
    }
    return -1;
}

/* Hands the card to a client; a turn that continues the one before needs no new segment. */
static void give_turn(struct sim_state *state, uint32_t card, int client) {
    struct sim_card *line = &state->cards[card];
    bool same = line->running == client;
    line->running = client;
    line->slice_left_ns = state->timing.slice_ns;
    if (client < 0 || same)
        return;
    struct sim_client *owner = &state->clients[client];
    owner->segments[owner->segment_count % SIM_SEGMENTS] = (struct sim_segment){
        .wall_ns = line->clock_ns, .progress_ns = owner->use[card].progress_ns, .card = card};
    owner->segment_count++;
}

/* Adds to a window's microseconds what lies between two points of time, rounded by their
 * positions on the clock, so that many short pieces add up to the truth. */
static void run(struct sim_state *state, uint32_t card, int client, uint64_t step_ns) {
    struct sim_card *line = &state->cards[card];
    uint32_t micros = (uint32_t)((line->clock_ns + step_ns) / 1000 - line->clock_ns / 1000);
    struct sim_use *use = &state->clients[client].use[card];
    sim_windows_run(state, card, client, micros);
    line->busy_ns += step_ns;
    use->progress_ns += step_ns;
    line->slice_left_ns -= step_ns < line->slice_left_ns ? step_ns : line->slice_left_ns;
    line->clock_ns += step_ns;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Between turns of two clients the card may do nothing for a while; true: it still does. */
static bool switches(struct sim_state *state, uint32_t card, int next, uint64_t until_ns) {
    struct sim_card *line = &state->cards[card];
    if (!line->switching && line->running >= 0 && next >= 0 && next != line->running) {
        line->switching = true;
        line->switch_left_ns = state->timing.switch_ns;
    }
    if (line->switching && line->switch_left_ns > 0) {
        uint64_t step = least(until_ns - line->clock_ns, line->switch_left_ns);
        line->clock_ns += step;
        line->switch_left_ns -= step;
        return true;
    }
    line->switching = false;
    return false;
}

/* The client whose kernels are on the card now, -1: none. */
static int on_card(const struct sim_state *state, uint32_t card) {
    const struct sim_card *line = &state->cards[card];
    bool runs = line->running >= 0 && !line->switching && has_work(state, line->running, card);
    return runs ? line->running : -1;
}

void sim_timeline_advance(struct sim_state *state, uint32_t card, uint64_t now_ns) {
    struct sim_card *line = &state->cards[card];
    uint64_t window_ns = sim_window_ns(state);
    while (line->clock_ns < now_ns) {
        uint64_t window_end = (line->window + 1) * window_ns;
        if (line->clock_ns >= window_end) {
            sim_windows_enter(state, card, line->clock_ns / window_ns, on_card(state, card));
            continue;
        }
        bool runs = line->running >= 0 && has_work(state, line->running, card);
        if (!runs || line->slice_left_ns == 0) {
            int next = next_client(state, card, line->running);
            if (switches(state, card, next, least(now_ns, window_end)))
                continue;
            if (!runs)
                line->running = -1; /* an idle gap: the next turn starts a segment */
            give_turn(state, card, next);
            if (next < 0) {
                line->clock_ns = now_ns;
                sim_windows_enter(state, card, now_ns / window_ns, -1);
                return;
            }
        }
        uint64_t step = least(now_ns, window_end) - line->clock_ns;
        step = least(step, remaining_ns(state, line->running, card));
        run(state, card, line->running, least(step, line->slice_left_ns));
    }
}

uint64_t sim_timeline_queue(struct sim_state *state, int client, uint32_t card, uint64_t after_ns,
                            uint64_t duration_ns) {
    struct sim_use *use = &state->clients[client].use[card];
    uint64_t start = after_ns > use->progress_ns ? after_ns : use->progress_ns;
    if (start + duration_ns > use->horizon_ns)
        use->horizon_ns = start + duration_ns;
    return start + duration_ns;
}

uint64_t sim_timeline_wait_ns(const struct sim_state *state, int client, uint32_t card,
                              uint64_t target_ns) {
    const struct sim_card *line = &state->cards[card];
    const struct sim_use *use = &state->clients[client].use[card];
    if (use->progress_ns >= target_ns)
        return 0;
    uint64_t wait = target_ns - use->progress_ns;
    if (line->running >= 0 && line->running != client)
        wait += least(line->slice_left_ns, remaining_ns(state, line->running, card));
    return wait;
}

uint64_t sim_timeline_wall_ns(const struct sim_state *state, int client, uint32_t card,
                              uint64_t target_ns) {
    const struct sim_client *owner = &state->clients[client];
    uint64_t oldest = owner->segment_count > SIM_SEGMENTS ? owner->segment_count - SIM_SEGMENTS : 0;
    uint64_t wall = 0;
    for (uint64_t i = owner->segment_count; i > oldest; i--) {
        const struct sim_segment *segment = &owner->segments[(i - 1) % SIM_SEGMENTS];
        if (segment->card != card)
            continue;
        wall = segment->wall_ns;
        if (segment->progress_ns < target_ns)
            return wall + (target_ns - segment->progress_ns);
    }
    return wall;
}

void sim_timeline_forget(struct sim_state *state, int client) {
    for (uint32_t card = 0; card < state->card_count; card++) {
        struct sim_use *use = &state->clients[client].use[card];
        use->horizon_ns = use->progress_ns;
        if (state->cards[card].running == client)
            state->cards[card].running = -1;
    }
}
