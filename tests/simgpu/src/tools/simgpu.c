/* The tests' control of the simulated cards. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "init.h"
#include "state/clients.h"
#include "state/faults.h"
#include "state/timeline.h"
#include "state/xids.h"

static struct sim_state *need_state(void) {
    struct sim_state *state = sim_state_map();
    if (!state)
        fprintf(stderr, "simgpu: %s: %s (run simgpu init)\n", sim_state_path(), strerror(errno));
    return state;
}

/* The card's index, or -1 after a message. */
static int find_card(const struct sim_state *state, const char *text) {
    char *end;
    unsigned long minor = strtoul(text, &end, 10);
    for (uint32_t card = 0; end != text && !*end && card < state->card_count; card++)
        if (state->cards[card].minor == minor)
            return (int)card;
    fprintf(stderr, "simgpu: no card has the minor %s\n", text);
    return -1;
}

static int do_init(struct sim_state *state, char **args) {
    (void)state, (void)args;
    return init_state(false) ? 0 : 1;
}

/* Forgets clients, XIDs and lost cards: for a machine on which no CUDA program runs. */
static int do_reset(struct sim_state *state, char **args) {
    (void)state, (void)args;
    return init_state(true) ? 0 : 1;
}

static int do_minors(struct sim_state *state, char **args) {
    (void)args;
    for (uint32_t card = 0; card < state->card_count; card++)
        printf("%u\n", state->cards[card].minor);
    return 0;
}

static void show_client(const struct sim_state *state, int client, uint32_t card) {
    const struct sim_client *entry = &state->clients[client];
    const struct sim_use *use = &entry->use[card];
    uint64_t bytes = sim_client_used_bytes(state, client, card);
    if (!entry->in_use || (!use->contexts && !bytes))
        return;
    uint64_t left = use->horizon_ns > use->progress_ns ? use->horizon_ns - use->progress_ns : 0;
    printf("  slot %d pid %d %s: %llu bytes, %u contexts, ran %llu ns, queued %llu ns\n", client,
           sim_client_pid(state, client), entry->name, (unsigned long long)bytes, use->contexts,
           (unsigned long long)use->progress_ns, (unsigned long long)left);
}

static int do_show(struct sim_state *state, char **args) {
    (void)args;
    printf("driver %s, cuda %d.%d, %llu XIDs raised\n", state->driver, state->cuda_version / 1000,
           state->cuda_version % 1000 / 10, (unsigned long long)state->xid_count);
    sim_lock(state);
    sim_clients_reap(state);
    for (uint32_t card = 0; card < state->card_count; card++) {
        const struct sim_card *entry = &state->cards[card];
        sim_timeline_advance(state, card, sim_now_ns());
        printf("card %u %s %s %s: %llu of %llu bytes used%s\n", entry->minor, entry->uuid,
               entry->bus, entry->model, (unsigned long long)sim_card_used_bytes(state, card),
               (unsigned long long)entry->memory_bytes, entry->lost ? ", lost" : "");
        for (int client = 0; client < SIM_CLIENTS_MAX; client++)
            show_client(state, client, card);
    }
    sim_unlock(state);
    return 0;
}

static int do_xid(struct sim_state *state, char **args) {
    int card = find_card(state, args[0]);
    char *end;
    unsigned long xid = strtoul(args[1], &end, 10);
    if (card < 0)
        return 2;
    if (end == args[1] || *end || xid == 0 || xid > 999) {
        fprintf(stderr, "simgpu: not an XID (1 to 999): %s\n", args[1]);
        return 2;
    }
    sim_xid_raise(state, (uint32_t)card, (uint32_t)xid);
    return 0;
}

static int do_lose(struct sim_state *state, char **args) {
    int card = find_card(state, args[0]);
    if (card < 0)
        return 2;
    state->cards[card].lost = 1;
    sim_xid_raise(state, (uint32_t)card, SIM_XID_FELL_OFF_THE_BUS);
    return 0;
}

static int do_restore(struct sim_state *state, char **args) {
    int card = find_card(state, args[0]);
    if (card < 0)
        return 2;
    state->cards[card].lost = 0;
    return 0;
}

static int do_ecc(struct sim_state *state, char **args) {
    int card = find_card(state, args[0]);
    char *end;
    unsigned long count = strtoul(args[1], &end, 10);
    if (card < 0)
        return 2;
    if (end == args[1] || *end || count > UINT32_MAX) {
        fprintf(stderr, "simgpu: not a number of errors: %s\n", args[1]);
        return 2;
    }
    state->cards[card].ecc_errors = (uint32_t)count;
    return 0;
}

static int do_remap(struct sim_state *state, char **args) {
    static const char *const names[] = {"none", "pending", "failed"};
    int card = find_card(state, args[0]);
    if (card < 0)
        return 2;
    for (uint32_t remap = SIM_REMAP_NONE; remap <= SIM_REMAP_FAILED; remap++) {
        if (strcmp(args[1], names[remap]) == 0) {
            state->cards[card].remap = remap;
            return 0;
        }
    }
    fprintf(stderr, "simgpu: not one of none, pending, failed: %s\n", args[1]);
    return 2;
}

/* What is wrong with NVML on the whole machine. */
static int do_nvml(struct sim_state *state, char **args) {
    bool hangs = strcmp(args[0], "hang") == 0, mismatch = strcmp(args[0], "mismatch") == 0;
    if (!hangs && !mismatch && strcmp(args[0], "well") != 0) {
        fprintf(stderr, "simgpu: not one of hang, mismatch, well: %s\n", args[0]);
        return 2;
    }
    state->nvml_mismatch = mismatch;
    __atomic_store_n(&state->nvml_hangs, hangs, __ATOMIC_RELEASE);
    return 0;
}

/* `clear`, or one more fault for every process's next calls. */
static int do_fault(struct sim_state *state, char **args) {
    struct sim_fault fault;
    char error[128];
    bool clear = strcmp(args[0], "clear") == 0;
    if (!clear && !sim_fault_parse(args[0], &fault, error, sizeof error)) {
        fprintf(stderr, "simgpu: fault: %s\n", error);
        return 2;
    }
    sim_lock(state);
    bool room = clear || state->fault_count < SIM_FAULTS_MAX;
    if (clear)
        state->fault_count = 0;
    else if (room)
        state->faults[state->fault_count++] = fault;
    __atomic_add_fetch(&state->fault_change, 1, __ATOMIC_RELEASE);
    sim_unlock(state);
    if (!room)
        fprintf(stderr, "simgpu: fault: %d are set already\n", SIM_FAULTS_MAX);
    return room ? 0 : 1;
}

static const struct {
    const char *name;
    int args;
    bool state;
    int (*run)(struct sim_state *state, char **args);
    const char *help;
} commands[] = {
    {"init", 0, false, do_init, "init                make the shared state from the description"},
    {"reset", 0, false, do_reset, "reset               the same, and forget clients and errors"},
    {"show", 0, true, do_show, "show                cards and their processes"},
    {"minors", 0, true, do_minors, "minors              the cards' minors, one a line"},
    {"xid", 2, true, do_xid, "xid MINOR XID       raise an XID error"},
    {"lose", 1, true, do_lose, "lose MINOR          the card falls off the bus (XID 79)"},
    {"restore", 1, true, do_restore, "restore MINOR       the card is back"},
    {"ecc", 2, true, do_ecc, "ecc MINOR COUNT     so many uncorrectable ECC errors"},
    {"remap", 2, true, do_remap, "remap MINOR STATE   of a memory row: none, pending, failed"},
    {"nvml", 1, true, do_nvml, "nvml STATE          hang, mismatch (of driver and library), well"},
    {"fault", 1, true, do_fault, "fault 'SYMBOL …'    inject a fault (README.md); fault clear"},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[1], commands[i].name) != 0 || argc - 2 != commands[i].args)
            continue;
        struct sim_state *state = commands[i].state ? need_state() : NULL;
        if (commands[i].state && !state)
            return 1;
        return commands[i].run(state, argv + 2);
    }
    fputs("usage: simgpu COMMAND\n", stderr);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(stderr, "  %s\n", commands[i].help);
    return 2;
}
