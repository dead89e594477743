/*
 * A process that charges and refunds is stopped after each instruction. Killed there, it would
 * leave no charge; and the work of another process meanwhile counts exactly once.
 *
 * The kill is played on a copy of the file, in which the stopped process's lock is free, so that
 * one run covers every instruction.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/ledger.h"
#include "support.h"

/* A charge looks at all slots: another one meanwhile makes it begin again. */
enum { LIMIT = 1000, MINE = 7, STEPS_BETWEEN = 4001 };

static void charge_and_refund(void) {
    struct ledger ledger = {.file = NULL};
    CHECK(ledger_open(&ledger, "ledger", true));
    CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    raise(SIGSTOP);
    for (int round = 0; round < 3; round++) {
        CHECK(ledger_add(&ledger, 0, 100, LIMIT));
        CHECK(ledger_add(&ledger, 0, 50, LIMIT));
        CHECK(!ledger_add(&ledger, 0, LIMIT, LIMIT));
        CHECK(ledger_add(&ledger, 0, -120, LIMIT));
        CHECK(ledger_add(&ledger, 0, -30, LIMIT));
    }
    raise(SIGSTOP);
}

static void *map_copy(void) {
    int fd = open("copy", O_RDWR | O_CREAT, 0666);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct vcuda_ledger_file)) == 0);
    void *mapping = mmap(NULL, sizeof(struct vcuda_ledger_file), PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapping != MAP_FAILED);
    close(fd);
    return mapping;
}

/* In the copy every process is dead: after recovery the charge is 0. */
static void expect_recovery(const struct ledger *live, void *copy) {
    static struct vcuda_ledger_file last; /* most instructions change nothing that others see */
    if (memcmp(&last, live->file, sizeof last) == 0) {
        return;
    }
    memcpy(&last, live->file, sizeof last);
    memcpy(copy, &last, sizeof last);
    struct ledger dead = {.file = NULL};
    CHECK(ledger_open(&dead, "copy", false));
    ledger_reclaim(&dead, "copy", 0);
    CHECK(ledger_sum(&dead, 0) == 0);
    munmap(dead.file, sizeof *dead.file);
}

static bool step(pid_t child) {
    int status;
    CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    return WSTOPSIG(status) == SIGTRAP;
}

int main(void) {
    files_make();
    void *copy = map_copy();
    struct ledger mine = {.file = NULL};
    CHECK(ledger_open(&mine, "ledger", true));
    pid_t child = start_child(charge_and_refund);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    unsigned steps = 0;
    uint64_t own = 0;
    while (step(child)) {
        steps++;
        expect_recovery(&mine, copy);
        if (steps % STEPS_BETWEEN == 0) {
            int64_t change = own == 0 ? MINE : -MINE;
            CHECK(ledger_add(&mine, 0, change, LIMIT));
            own += (uint64_t)change;
        }
    }
    CHECK(steps > 1000);
    CHECK(ledger_sum(&mine, 0) == own);
    CHECK(ledger_slots_bytes() == own * VCUDA_UNIT_BYTES);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(wait_child(child) == 128 + SIGKILL);
    return 0;
}
