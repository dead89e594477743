/*
 * Included before ledger.c and slot_lock.c by steps_ledger: each operation on shared words and
 * locks is announced before it is done, so that another process may go first, and reported after.
 */
#ifndef TRACED_H
#define TRACED_H

#include <stdatomic.h>

#include "shared/sys.h"

/* `where`: an address in the mapped ledger. Other addresses are neither announced nor reported. */
bool traced_word(const char *function, const char *operation, const volatile void *where);
void traced_value(uint64_t value);
bool traced_call(const char *function, const char *operation, const char *what, size_t offset);
void traced_outcome(bool outcome);
int traced_open(const char *path, int flags); /* what it opens goes with its process */
void traced_close(int fd);

#undef atomic_load
#undef atomic_store
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak

#define atomic_load(where)                                                                         \
    __extension__({                                                                                \
        bool followed = traced_word(__func__, "load", where);                                      \
        __auto_type value = atomic_load_explicit(where, memory_order_seq_cst);                     \
        if (followed) {                                                                            \
            traced_value((uint64_t)value);                                                         \
        }                                                                                          \
        value;                                                                                     \
    })

#define atomic_store(where, what)                                                                  \
    do {                                                                                           \
        bool followed = traced_word(__func__, "store", where);                                     \
        atomic_store_explicit(where, what, memory_order_seq_cst);                                  \
        if (followed) {                                                                            \
            traced_value((uint64_t)atomic_load_explicit(where, memory_order_seq_cst));             \
        }                                                                                          \
    } while (0)

#undef atomic_exchange
#define atomic_exchange(where, what)                                                               \
    __extension__({                                                                                \
        bool followed = traced_word(__func__, "exchange", where);                                  \
        __auto_type value = atomic_exchange_explicit(where, what, memory_order_seq_cst);           \
        if (followed) {                                                                            \
            traced_value((uint64_t)value);                                                         \
        }                                                                                          \
        value;                                                                                     \
    })

#define atomic_compare_exchange_strong(where, expected, desired)                                   \
    __extension__({                                                                                \
        bool followed = traced_word(__func__, "swap", where);                                      \
        bool fits = atomic_compare_exchange_strong_explicit(                                       \
            where, expected, desired, memory_order_seq_cst, memory_order_seq_cst);                 \
        if (followed) {                                                                            \
            traced_outcome(fits);                                                                  \
        }                                                                                          \
        fits;                                                                                      \
    })
/* No call asks for a failure without a reason. */
#define atomic_compare_exchange_weak atomic_compare_exchange_strong

#define TRACED_LOCK(call, operation, offset)                                                       \
    __extension__({                                                                                \
        bool followed = traced_call(__func__, operation, "lock", offset);                          \
        bool fits = call;                                                                          \
        if (followed) {                                                                            \
            traced_outcome(fits);                                                                  \
        }                                                                                          \
        fits;                                                                                      \
    })
#define sys_share_byte(fd, offset, owner)                                                          \
    TRACED_LOCK((sys_share_byte)(fd, offset, owner), "share", offset)
#define sys_lock_byte(fd, offset, owner)                                                           \
    TRACED_LOCK((sys_lock_byte)(fd, offset, owner), "lock", offset)
#define sys_unlock_byte(fd, offset, owner)                                                         \
    TRACED_LOCK(((sys_unlock_byte)(fd, offset, owner), false), "unlock", offset)

/* The model's processes look for a free slot one by one. */
#define sys_pid() ((uint32_t)0)

#define sys_open(path, flags)                                                                      \
    __extension__({                                                                                \
        bool followed = traced_call(__func__, "open", "file", 0);                                  \
        int opened = traced_open(path, flags);                                                     \
        if (followed) {                                                                            \
            traced_outcome(false);                                                                 \
        }                                                                                          \
        opened;                                                                                    \
    })
#define sys_close(fd)                                                                              \
    __extension__({                                                                                \
        bool followed = traced_call(__func__, "close", "file", 0);                                 \
        traced_close(fd);                                                                          \
        if (followed) {                                                                            \
            traced_outcome(false);                                                                 \
        }                                                                                          \
    })

#endif
