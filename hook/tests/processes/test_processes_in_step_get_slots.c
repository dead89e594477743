/*
 * Two processes open the ledger in step, one call of the kernel each in turn: they meet at the
 * first slot, and each finds one.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "shared/ledger.h"
#include "support.h"

static void take(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    raise(SIGSTOP);
    struct ledger ledger = {.file = NULL};
    CHECK(ledger_open(&ledger, "ledger", true));
    raise(SIGSTOP); /* holds it until the other has one */
}

/* To the next entry or end of a call; false once it holds a slot. */
static bool step(pid_t child) {
    int status;
    CHECK(ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSTOPPED(status));
    return WSTOPSIG(status) != SIGSTOP;
}

int main(void) {
    files_make();
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        int status;
        children[i] = start_child(take);
        CHECK(waitpid(children[i], &status, 0) == children[i] && WIFSTOPPED(status));
    }
    for (bool going[2] = {true, true}; going[0] || going[1];) {
        for (int i = 0; i < 2; i++) {
            going[i] = going[i] && step(children[i]);
        }
    }
    unsigned owners = 0;
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        owners += ledger_map()->slots[slot].pid != 0;
    }
    CHECK(owners == 2);
    for (int i = 0; i < 2; i++) {
        CHECK(kill(children[i], SIGKILL) == 0 && wait_child(children[i]) == 128 + SIGKILL);
    }
    return 0;
}
