/*
 * A process may be stopped just before it returns a dead one's units, with its lock on the dead
 * one's slot. Another process that wants the memory meanwhile gets it: the slot doesn't look as if
 * it had an owner.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "support.h"

static int holding[2], looking[2], stopped[2];

static void hold(void) {
    context_make(0);
    allocate(300 * MIB);
    tell(holding);
    pause();
}

/* As slot_lock_share_other does; the slot is the first, and the only one taken. */
static void stop_while_looking(void) {
    struct flock lock = {.l_type = F_RDLCK,
                         .l_whence = SEEK_SET,
                         .l_start = offsetof(struct vcuda_ledger_file, slots),
                         .l_len = 1};
    int fd = open("ledger", O_RDWR);
    CHECK(fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0);
    tell(looking);
    await(stopped);
}

static void expect_room(void) {
    context_make(0);
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
}

int main(void) {
    files_make();
    CHECK(pipe(holding) == 0 && pipe(looking) == 0 && pipe(stopped) == 0);
    pid_t holder = start_child(hold);
    await(holding);
    CHECK(kill(holder, SIGKILL) == 0 && wait_child(holder) == 128 + SIGKILL);
    CHECK(ledger_map()->slots[0].cards[0].used != 0);
    pid_t looker = start_child(stop_while_looking);
    await(looking);
    CHECK(in_child(expect_room) == 0);
    CHECK(ledger_slots_bytes() == CONTEXT_BYTES); /* of the last one, now dead too */
    tell(stopped);
    CHECK(wait_child(looker) == 0);
    return 0;
}
