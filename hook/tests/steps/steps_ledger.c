/*
 * Plays schedules on the ledger's own code and prints each operation on shared words and locks, for
 * tests/hook/model/test_ledger_steps.py, which compares them with those of its model.
 *
 * A line on stdin: the limit in units, a script for each process, the schedule; with | between.
 * A script: open, charge N, return N, look, exec. The schedule: N does process N's next operation,
 * xN kills it. The processes are coroutines: each has its files and mappings, and so locks, of its
 * own, and loses them as the kernel would take them.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "memory/card_limits.h"
#include "support.h"
#include "traced.h"

#undef sys_open
#undef sys_close

enum { PLAYERS = 4, SLOTS = 4, FILES = 8, STACK_BYTES = 256 << 10, LEDGER_FD = 900 };

static struct player {
    struct process process; /* its state as the hook has it */
    const char *script;
    uint64_t held;
    int files[FILES]; /* open ones; 0: a free place */
    ucontext_t context;
    bool dead;
} players[PLAYERS], *current;

static ucontext_t scheduler;
static uint64_t limit;
static struct {
    const char *function, *operation, *what;
    int slot;
} announced;

static bool announce(const char *function, const char *operation, const char *what, int slot) {
    /* The kind of a slot's lock is tried on a byte that no other process uses. */
    if (slot >= SLOTS || strcmp(function, "mapping_keeps_locks") == 0) {
        return false;
    }
    swapcontext(&current->context, &scheduler);
    announced = (__typeof__(announced)){function, operation, what, slot};
    return true;
}

static void report(uint64_t outcome) {
    printf("%d %s %s %s %d %lld\n", (int)(current - players), announced.function,
           announced.operation, announced.what, announced.slot, (long long)outcome);
}

bool traced_word(const char *function, const char *operation, const volatile void *where) {
    const struct vcuda_ledger_file *file = current->process.ledger.file;
    if (where == &file->cards[0].sum) {
        return announce(function, operation, "sum", -1);
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        const struct vcuda_ledger_entry *entry = &file->slots[slot].cards[0];
        const char *what = where == &entry->used       ? "used"
                           : where == &entry->delta    ? "delta"
                           : where == &entry->contexts ? "contexts"
                           : where == &entry->open_ns  ? "open"
                                                       : NULL;
        if (what != NULL) {
            return announce(function, operation, what, slot);
        }
    }
    return false;
}

void traced_value(uint64_t value) {
    bool packed = strcmp(announced.what, "sum") == 0 || strcmp(announced.what, "used") == 0;
    report(packed ? value & ((UINT64_C(1) << VCUDA_UNITS_BITS) - 1) : value);
}

bool traced_call(const char *function, const char *operation, const char *what, size_t offset) {
    size_t first = offsetof(struct vcuda_ledger_file, slots);
    int slot = offset == 0 ? -1 : (int)((offset - first) / sizeof(struct vcuda_ledger_slot));
    return announce(function, operation, what, slot);
}

void traced_outcome(bool outcome) { report(outcome); }

int traced_open(const char *path, int flags) {
    int fd = sys_open(path, flags);
    for (int i = 0; fd > 0 && i < FILES; i++) {
        if (current->files[i] == 0) {
            current->files[i] = fd;
            break;
        }
    }
    return fd;
}

void traced_close(int fd) {
    for (int i = 0; i < FILES; i++) {
        current->files[i] = current->files[i] == fd ? 0 : current->files[i];
    }
    sys_close(fd);
}

/* The files and locks that the kernel takes of a process that ends or calls exec. */
static void lose_all(struct player *player) {
    for (int i = 0; i < FILES; i++) {
        if (player->files[i] != 0) {
            sys_close(player->files[i]);
            player->files[i] = 0;
        }
    }
    if (player->process.ledger.file != NULL) {
        munmap(player->process.ledger.file, sizeof *player->process.ledger.file);
    }
    memset(&player->process, 0, sizeof player->process);
    player->held = 0;
}

static void charge(uint64_t units) {
    struct card_limits limits = {
        .share_bytes = limit * VCUDA_UNIT_BYTES, .card = 0, .counted = true};
    if (current->process.ledger.slot_lock.held &&
        card_limits_charge(&current->process, &limits, units) == CUDA_SUCCESS) {
        current->held += units;
    }
}

static void play_call(const char *call) {
    unsigned long units = strtoul(call + strcspn(call, "0123456789"), NULL, 10);
    if (strncmp(call, "open", 4) == 0) {
        ledger_open(&current->process.ledger, HOOK_LEDGER_PATH, true);
    } else if (strncmp(call, "charge", 6) == 0) {
        charge(units);
    } else if (strncmp(call, "return", 6) == 0 && current->held >= units) {
        current->held -= units;
        card_limits_return(&current->process, 0, units);
    } else if (strncmp(call, "look", 4) == 0) {
        ledger_reclaim(&current->process.ledger, HOOK_LEDGER_PATH, 0);
    } else if (strncmp(call, "exec", 4) == 0) {
        announce("main", "exec", "process", -1);
        lose_all(current);
        report(0);
    }
}

static void play_script(void) {
    struct player *self = current;
    for (const char *call = self->script; call != NULL; call = strchr(call, ',')) {
        call += strspn(call, ", ");
        play_call(call);
    }
    for (;;) {
        self->dead = true;
        swapcontext(&self->context, &scheduler);
    }
}

static void resume(struct player *player) {
    current = player;
    swapcontext(&scheduler, &player->context);
}

static void begin(struct player *player, const char *script) {
    player->script = script;
    CHECK(getcontext(&player->context) == 0);
    player->context.uc_stack.ss_sp = malloc(STACK_BYTES);
    player->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&player->context, play_script, 0);
    resume(player); /* up to its first operation */
}

static void play(char *line) {
    char *rest = NULL, *field = strtok_r(line, "|\n", &rest), *next;
    unsigned count = 0;
    limit = strtoul(field, NULL, 10);
    for (field = strtok_r(NULL, "|\n", &rest); (next = strtok_r(NULL, "|\n", &rest)) != NULL;
         field = next) {
        CHECK(count < PLAYERS);
        begin(&players[count++], field);
    }
    for (char *token = strtok_r(field, " ", &rest); token != NULL;
         token = strtok_r(NULL, " ", &rest)) {
        struct player *player = &players[strtoul(token + (*token == 'x'), NULL, 10) % PLAYERS];
        if (*token == 'x') {
            lose_all(player);
            player->dead = true;
        } else {
            CHECK(!player->dead);
            resume(player);
        }
    }
}

static void make_ledger(void) {
    files_make();
    int fd = memfd_create("ledger", 0); /* no other kind of file system decides how locks work */
    struct vcuda_ledger_file *file = ledger_map();
    CHECK(fd >= 0 && write(fd, file, sizeof *file) == (ssize_t)sizeof *file);
    CHECK(dup2(fd, LEDGER_FD) == LEDGER_FD);
}

int main(void) {
    char line[8192];
    while (fgets(line, sizeof line, stdin) != NULL) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            make_ledger();
            play(line);
            fflush(stdout);
            _Exit(0);
        }
        CHECK(wait_child(child) == 0);
        puts("end");
    }
    return 0;
}
