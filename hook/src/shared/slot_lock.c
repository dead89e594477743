#include "shared/slot_lock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shared/sys.h"
#include "vcuda_layout.h"

/* The least number of a kept descriptor: above those that programs close one by one or choose for
 * dup2, and below the usual limit of 1024, as the table of descriptors grows with the highest
 * number. */
enum { KEPT_FD_MIN = 1000 };

/* The descriptor that was kept last. Unlike the state of the process it survives fork: a child
 * closes what it inherited. Only a number: the program may have given it to another file. */
static struct {
    int fd; /* 0: none */
    dev_t device;
    ino_t inode;
} kept;

static size_t byte_of(unsigned slot) {
    return offsetof(struct vcuda_ledger_file, slots) + slot * sizeof(struct vcuda_ledger_slot);
}

/* `but`: a descriptor that was opened since, and may have got the number of one that was closed. */
static void close_kept(int but) {
    struct stat found;
    if (kept.fd != 0 && kept.fd != but && sys_stat(kept.fd, &found) &&
        found.st_dev == kept.device && found.st_ino == kept.inode) {
        sys_close(kept.fd);
    }
    kept.fd = 0;
}

static void remember_kept(int fd) {
    struct stat found;
    if (sys_stat(fd, &found)) {
        kept.device = found.st_dev;
        kept.inode = found.st_ino;
        kept.fd = fd;
    }
}

static int move_up(int fd) {
    for (int least = KEPT_FD_MIN; least > fd; least /= 2) { /* the limit may be lower */
        int moved = sys_duplicate(fd, least);
        if (moved >= 0) {
            sys_close(fd);
            return moved;
        }
    }
    return fd;
}

/* Shared first, for a dead process's units go back before the slot has a new owner; then one call
 * makes a write lock of it. Of two that try the same slot at the same time both may go on to the
 * next: each by a stride of its own, or two in step would meet at every slot. An odd stride comes
 * to every slot once. */
static bool take_first_free(struct slot_lock *slot_lock, int fd, enum lock_owner owner,
                            const struct slot_clearing *clearing) {
    unsigned stride = 2 * sys_pid() + 1;
    for (unsigned i = 0; i < VCUDA_LEDGER_SLOTS; i++) {
        unsigned slot = (slot_lock->slot + i * stride) % VCUDA_LEDGER_SLOTS;
        if (!sys_share_byte(fd, byte_of(slot), owner)) {
            continue;
        }
        clearing->clear(clearing->ledger, slot);
        if (sys_lock_byte(fd, byte_of(slot), owner)) {
            slot_lock->slot = slot;
            return true;
        }
        sys_unlock_byte(fd, byte_of(slot), owner);
    }
    return false;
}

/*
 * Tries it with another open file, another mapping and the byte after the slot's: only the slot's
 * owner touches that one, and `fd` keeps the slot meanwhile, so a lock that is found there is ours.
 * Where the trial itself fails, the answer is no: a descriptor always serves.
 */
static bool mapping_keeps_locks(const char *path, int fd, unsigned slot) {
    size_t byte = byte_of(slot) + 1;
    int trial = sys_open(path, O_RDWR);
    if (trial < 0) {
        return false;
    }
    void *mapping = sys_map(1, PROT_READ | PROT_WRITE, MAP_SHARED, trial);
    bool locked = mapping != NULL && sys_lock_byte(trial, byte, LOCK_OF_FILE);
    sys_close(trial);
    locked = locked && sys_byte_is_locked(fd, byte);
    if (mapping != NULL) {
        sys_unmap(mapping, 1);
    }
    return locked;
}

bool slot_lock_take(struct slot_lock *slot_lock, const char *path, int fd,
                    const struct slot_clearing *clearing) {
    close_kept(fd); /* before locking: closing any descriptor drops the process's own locks */
    slot_lock->fd = 0;
    slot_lock->held = take_first_free(slot_lock, fd, LOCK_OF_FILE, clearing);
    if (!slot_lock->held || mapping_keeps_locks(path, fd, slot_lock->slot)) {
        sys_close(fd);
        return slot_lock->held;
    }
    sys_unlock_byte(fd, byte_of(slot_lock->slot), LOCK_OF_FILE); /* the two exclude each other */
    fd = move_up(fd);
    /* 0 means none; descriptor 0 is left over only where the program has used up all others. */
    slot_lock->held = fd != 0 && take_first_free(slot_lock, fd, LOCK_OF_PROCESS, clearing);
    if (!slot_lock->held) {
        sys_close(fd);
        return false;
    }
    slot_lock->fd = fd;
    remember_kept(fd);
    return true;
}

bool slot_lock_is_held(const struct slot_lock *slot_lock) {
    return slot_lock->held &&
           (slot_lock->fd == 0 || sys_byte_is_ours(slot_lock->fd, byte_of(slot_lock->slot)));
}

void slot_lock_release(struct slot_lock *slot_lock) {
    if (slot_lock->fd != 0) {
        close_kept(0);
    }
    slot_lock->held = false;
    slot_lock->fd = 0;
}

int slot_lock_borrow_descriptor(const struct slot_lock *slot_lock, const char *path) {
    return slot_lock->fd != 0 ? slot_lock->fd : sys_open(path, O_RDWR);
}

void slot_lock_give_back_descriptor(const struct slot_lock *slot_lock, int fd) {
    if (fd != slot_lock->fd) {
        sys_close(fd);
    }
}

bool slot_lock_share_other(const struct slot_lock *slot_lock, int fd, unsigned slot) {
    if (!sys_share_byte(fd, byte_of(slot), LOCK_OF_FILE)) {
        return false;
    }
    /* A descriptor that is the ledger now was it when the byte was locked: without this look, a
     * program that has put another file there would make every slot seem free. */
    if (fd == slot_lock->fd && !slot_lock_is_held(slot_lock)) {
        sys_unlock_byte(fd, byte_of(slot), LOCK_OF_FILE);
        return false;
    }
    return true;
}

void slot_lock_unshare_other(int fd, unsigned slot) {
    sys_unlock_byte(fd, byte_of(slot), LOCK_OF_FILE);
}
