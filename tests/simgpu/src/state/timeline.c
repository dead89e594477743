/* Round robin among the clients with work, worked out lazily, at each look at the card. */
#include "timeline.h"

#include <string.h>

#include "windows.h"

static uint64_t remaining_ns(const struct sim_state *state, int client, uint32_t card) {
    const struct sim_use *use = &state->clients[client].use[card];
    return use->horizon_ns > use->progress_ns ? use->horizon_ns - use->progress_ns : 0;
}

static bool has_work(const struct sim_state *state, int client, uint32_t card) {
    return state->clients[client].in_use && remaining_ns(state, client, card) > 0;
}

/* The rest of the span that the client's GPU time is in, 0: it needs no multiprocessor now. */
static uint64_t span_left_ns(const struct sim_state *state, int client, uint32_t card) {
    const struct sim_use *use = &state->clients[client].use[card];
    if (!state->clients[client].in_use || use->span_first == use->span_count)
        return 0;
    const struct sim_span *span = &use->spans[use->span_first];
    return use->progress_ns >= span->begin_ns ? span->end_ns - use->progress_ns : 0;
}

/* Until the client needs a multiprocessor, or has no work; 0: now. */
static uint64_t apart_left_ns(const struct sim_state *state, int client, uint32_t card) {
    const struct sim_use *use = &state->clients[client].use[card];
    if (!has_work(state, client, card) || span_left_ns(state, client, card) > 0)
        return 0;
    bool more = use->span_first < use->span_count;
    return (more ? use->spans[use->span_first].begin_ns : use->horizon_ns) - use->progress_ns;
}

static int next_client(const struct sim_state *state, uint32_t card, int after) {
    for (int step = 1; step <= SIM_CLIENTS_MAX; step++) {
        int client = (after + step + SIM_CLIENTS_MAX) % SIM_CLIENTS_MAX;
        if (span_left_ns(state, client, card) > 0)
            return client;
    }
    return -1;
}

static void give_turn(struct sim_state *state, uint32_t card, int client) {
    state->cards[card].running = client;
    state->cards[card].slice_left_ns = state->timing.slice_ns;
}

/* A client's GPU time goes on; what continues the time before needs no new segment. */
static void move(struct sim_state *state, uint32_t card, int client, uint64_t step_ns) {
    struct sim_client *owner = &state->clients[client];
    struct sim_use *use = &owner->use[card];
    uint64_t clock_ns = state->cards[card].clock_ns;
    const struct sim_segment *last = owner->segments;
    if (owner->segment_count)
        last = &owner->segments[(owner->segment_count - 1) % SIM_SEGMENTS];
    if (!owner->segment_count || last->card != card ||
        clock_ns - last->wall_ns != use->progress_ns - last->progress_ns) {
        owner->segments[owner->segment_count % SIM_SEGMENTS] = (struct sim_segment){
            .wall_ns = clock_ns, .progress_ns = use->progress_ns, .card = card};
        owner->segment_count++;
    }
    use->progress_ns += step_ns;
    if (use->span_first < use->span_count && use->progress_ns >= use->spans[use->span_first].end_ns)
        use->span_first++;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Calls for each client whose copies go on beside the multiprocessors: moves them by a step, or
 * (step 0) returns the longest step that all can do, at most `most_ns`. */
static uint64_t move_apart(struct sim_state *state, uint32_t card, uint64_t step_ns,
                           uint64_t most_ns) {
    for (int word = 0; word < SIM_CLIENTS_MAX / 64; word++)
        for (uint64_t left = state->cards[card].apart[word]; left; left &= left - 1) {
            int client = word * 64 + __builtin_ctzll(left);
            uint64_t apart_ns = apart_left_ns(state, client, card);
            if (apart_ns > 0 && step_ns > 0)
                move(state, card, client, step_ns);
            else if (apart_ns > 0)
                most_ns = least(most_ns, apart_ns);
            if (!has_work(state, client, card))
                state->cards[card].apart[word] &= ~(1ULL << (client % 64));
        }
    return most_ns;
}

/* Adds to a window's microseconds what lies between two points of time, rounded by their
 * positions on the clock, so that many short pieces add up to the truth. */
static void run(struct sim_state *state, uint32_t card, int client, uint64_t step_ns) {
    struct sim_card *line = &state->cards[card];
    uint32_t micros = (uint32_t)((line->clock_ns + step_ns) / 1000 - line->clock_ns / 1000);
    sim_windows_run(state, card, client, micros);
    line->busy_ns += step_ns;
    line->slice_left_ns -= step_ns < line->slice_left_ns ? step_ns : line->slice_left_ns;
    move(state, card, client, step_ns);
}

/* Between turns of two clients the multiprocessors may do nothing for a while; true: they still
 * do. */
static bool switches(struct sim_state *state, uint32_t card, int next) {
    struct sim_card *line = &state->cards[card];
    if (!line->switching && line->running >= 0 && next >= 0 && next != line->running) {
        line->switching = true;
        line->switch_left_ns = state->timing.switch_ns;
    }
    line->switching = line->switching && line->switch_left_ns > 0;
    return line->switching;
}

/* The client whose kernels are on the card now, -1: none. */
static int on_card(const struct sim_state *state, uint32_t card) {
    const struct sim_card *line = &state->cards[card];
    bool runs = line->running >= 0 && !line->switching && span_left_ns(state, line->running, card);
    return runs ? line->running : -1;
}

/* Whose turn it is; where nobody's is, or between two, -1. */
static int whose_turn(struct sim_state *state, uint32_t card) {
    struct sim_card *line = &state->cards[card];
    bool runs = line->running >= 0 && span_left_ns(state, line->running, card) > 0;
    if (runs && line->slice_left_ns > 0 && !line->switching)
        return line->running;
    int next = next_client(state, card, line->running);
    if (switches(state, card, next))
        return -1;
    give_turn(state, card, next);
    return next;
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
        int client = whose_turn(state, card);
        uint64_t step = move_apart(state, card, 0, now_ns - line->clock_ns);
        if (client < 0 && !line->switching && step == now_ns - line->clock_ns) {
            move_apart(state, card, step, 0); /* no multiprocessor is needed until then */
            line->clock_ns = now_ns;
            sim_windows_enter(state, card, now_ns / window_ns, -1);
            return;
        }
        step = least(step, window_end - line->clock_ns);
        if (line->switching)
            step = least(step, line->switch_left_ns);
        else if (client >= 0)
            step = least(step, least(span_left_ns(state, client, card), line->slice_left_ns));
        move_apart(state, card, step, 0);
        if (line->switching)
            line->switch_left_ns -= step;
        else if (client >= 0)
            run(state, card, client, step);
        line->clock_ns += step;
    }
}

/* Puts a span in its place; one that touches others becomes one with them. */
static void add_span(struct sim_use *use, struct sim_span span) {
    uint32_t at = use->span_count;
    while (at > use->span_first && use->spans[at - 1].end_ns >= span.begin_ns)
        at--;
    uint32_t after = at;
    for (; after < use->span_count && use->spans[after].begin_ns <= span.end_ns; after++) {
        span.begin_ns = least(span.begin_ns, use->spans[after].begin_ns);
        if (use->spans[after].end_ns > span.end_ns)
            span.end_ns = use->spans[after].end_ns;
    }
    if (at == after && use->span_count == SIM_SPANS) {
        uint32_t kept = use->span_count - use->span_first;
        memmove(use->spans, use->spans + use->span_first, kept * sizeof span);
        at -= use->span_first;
        after -= use->span_first;
        use->span_first = 0;
        use->span_count = kept;
    }
    /* Full: what lies between this and one beside it counts too. */
    if (at == after && use->span_count == SIM_SPANS && at > 0)
        span.begin_ns = use->spans[--at].begin_ns;
    else if (at == after && use->span_count == SIM_SPANS)
        span.end_ns = use->spans[after++].end_ns;
    uint32_t rest = use->span_count - after;
    memmove(use->spans + at + 1, use->spans + after, rest * sizeof span);
    use->spans[at] = span;
    use->span_count = at + 1 + rest;
}

static void go_apart(struct sim_state *state, int client, uint32_t card) {
    state->cards[card].apart[client / 64] |= 1ULL << (client % 64);
}

static uint64_t end_by(struct sim_use *use, uint64_t end_ns) {
    if (end_ns > use->horizon_ns)
        use->horizon_ns = end_ns;
    return end_ns;
}

uint64_t sim_timeline_queue(struct sim_state *state, int client, uint32_t card, uint64_t after_ns,
                            uint64_t duration_ns) {
    struct sim_use *use = &state->clients[client].use[card];
    uint64_t start = after_ns > use->progress_ns ? after_ns : use->progress_ns;
    if (start > use->horizon_ns)
        go_apart(state, client, card);
    if (duration_ns)
        add_span(use, (struct sim_span){start, start + duration_ns});
    return end_by(use, start + duration_ns);
}

uint64_t sim_timeline_copy(struct sim_state *state, int client, uint32_t card, uint64_t after_ns,
                           enum sim_engine engine, uint64_t duration_ns) {
    struct sim_use *use = &state->clients[client].use[card];
    uint64_t start = after_ns > use->progress_ns ? after_ns : use->progress_ns;
    if (use->copied_ns[engine] > start)
        start = use->copied_ns[engine];
    go_apart(state, client, card);
    return use->copied_ns[engine] = end_by(use, start + duration_ns);
}

uint64_t sim_timeline_wait_ns(const struct sim_state *state, int client, uint32_t card,
                              uint64_t target_ns) {
    const struct sim_card *line = &state->cards[card];
    const struct sim_use *use = &state->clients[client].use[card];
    if (use->progress_ns >= target_ns)
        return 0;
    uint64_t wait = target_ns - use->progress_ns;
    if (line->running >= 0 && line->running != client && span_left_ns(state, client, card) > 0)
        wait += least(line->slice_left_ns, span_left_ns(state, line->running, card));
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

uint64_t sim_timeline_full_until(const struct sim_state *state, int client, uint32_t card) {
    const struct sim_use *use = &state->clients[client].use[card];
    bool full = use->span_count - use->span_first == SIM_SPANS;
    return full ? use->spans[use->span_first].end_ns : 0;
}

void sim_timeline_forget(struct sim_state *state, int client) {
    for (uint32_t card = 0; card < state->card_count; card++) {
        struct sim_use *use = &state->clients[client].use[card];
        use->horizon_ns = use->progress_ns;
        use->span_first = use->span_count = 0;
        if (state->cards[card].running == client)
            state->cards[card].running = -1;
    }
}
