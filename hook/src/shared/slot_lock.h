/*
 * Tells that a slot's owner lives: a write lock on the slot's byte, which the kernel drops with the
 * process, by SIGKILL and exec too, and which a forked child doesn't have.
 *
 * Mostly it is an OFD lock, and the mapping keeps its open file: no descriptor stays that the
 * program could close. On a stacked filesystem the mapping may keep another file, that of the layer
 * below (overlayfs does), and the lock would go with the descriptor. There the descriptor stays,
 * and the lock is the process's own (POSIX): a child gets the descriptor, and would keep an OFD
 * lock by it. The program can lose such a hold, by closing this or any other descriptor of the
 * ledger. So it is looked at before each use, and here the ledger is opened once only.
 */
#ifndef HOOK_SLOT_LOCK_H
#define HOOK_SLOT_LOCK_H

#include <stdbool.h>

struct ledger;

struct slot_lock {
    bool held;
    unsigned slot; /* also after its loss: it is tried first then */
    int fd;        /* 0: the mapping keeps the lock */
};

/* The caller's work on a free slot, which stays free meanwhile, before it is taken: other processes
 * would count its units as the new owner's. */
struct slot_clearing {
    void (*clear)(struct ledger *ledger, unsigned slot);
    struct ledger *ledger;
};

/* Takes a free slot. `fd` is the ledger at `path`, open and mapped; it is closed, or kept. False:
 * all slots are taken, and `fd` is closed. */
bool slot_lock_take(struct slot_lock *slot_lock, const char *path, int fd,
                    const struct slot_clearing *clearing);
/* Whether the slot is still held; cheap where the mapping keeps the lock. */
bool slot_lock_is_held(const struct slot_lock *slot_lock);
/* To be called when the mapping goes. */
void slot_lock_release(struct slot_lock *slot_lock);

/* For a look at others' slots: the ledger's descriptor, to be given back; negative: none. */
int slot_lock_borrow_descriptor(const struct slot_lock *slot_lock, const char *path);
void slot_lock_give_back_descriptor(const struct slot_lock *slot_lock, int fd);
/* Keeps another slot, if it is free, from being taken until slot_lock_unshare_other. Several
 * processes may do so at the same time: a slot without an owner never looks as if it had one. */
bool slot_lock_share_other(const struct slot_lock *slot_lock, int fd, unsigned slot);
void slot_lock_unshare_other(int fd, unsigned slot);

#endif
