/*
 * The memory that this process holds: a size and an owner by the driver's handle. Plain data of one
 * process; callers hold its lock. The table lies in memory that a forked child doesn't have.
 */
#ifndef HOOK_ALLOCATION_TABLE_H
#define HOOK_ALLOCATION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of a key: handles of different kinds may have the same value. */
enum allocation_kind {
    ALLOCATION_NONE, /* a free place */
    /* These go with their context. */
    ALLOCATION_POINTER, /* device memory */
    ALLOCATION_ARRAY,
    ALLOCATION_MIPMAP,
    ALLOCATION_LAST_OF_CONTEXT = ALLOCATION_MIPMAP,
    /* See vmm.h. */
    ALLOCATION_PHYSICAL, /* by the handle of cuMemCreate */
    ALLOCATION_MAPPING,  /* by address */
    ALLOCATION_UNMAPPING,
    ALLOCATION_DYING,
    /* See vmm_export.c. */
    ALLOCATION_EXPORTED,   /* by handle: its descriptor */
    ALLOCATION_DESCRIPTOR, /* by descriptor: `bytes` is which file, `handle` whose */
    ALLOCATION_KEPT,       /* by descriptor: memory that it alone keeps; `handle` is which file */
    /* See mempool_account.h. */
    ALLOCATION_POOL,       /* by its handle: where it lies */
    ALLOCATION_POOLED,     /* by device pointer */
    ALLOCATION_GRAPH_EXEC, /* see graph_exec.h */
};

struct allocation {
    uint64_t key;
    uint64_t bytes; /* as requested */
    union {
        uint64_t handle; /* of a mapping: the mapped memory */
        struct {
            uint32_t handles, mappings; /* of physical memory: its holders */
        };
        struct {
            uint32_t launched, trims; /* of an executable graph: whether and when */
        };
    };
    uint32_t owner; /* number of a context or a pool; of physical memory: the ledger's card */
    enum allocation_kind kind;
};

struct allocation_table {
    struct allocation *places;
    size_t capacity; /* power of two */
    size_t count;
};

/* Makes room for `extra` more, so that allocation_table_put can't fail. False without memory. */
bool allocation_table_reserve(struct allocation_table *table, size_t extra);
void allocation_table_put(struct allocation_table *table, struct allocation record);
/* The record, to be changed where it stands, until the next put or take; NULL: there is none. */
struct allocation *allocation_table_find(const struct allocation_table *table,
                                         enum allocation_kind kind, uint64_t key);
/* Removes and returns the record; false where there is none. */
bool allocation_table_take(struct allocation_table *table, enum allocation_kind kind, uint64_t key,
                           struct allocation *record);
void allocation_table_drop_context(struct allocation_table *table, uint32_t context);

#endif
