/*
 * What this process holds: a size and an owner by the driver's handle. Plain data of one process;
 * callers hold its lock. The table lies in memory that a forked child doesn't have.
 */
#ifndef HOOK_ALLOCATION_TABLE_H
#define HOOK_ALLOCATION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a key is: handles of different kinds may have the same value. */
enum record_kind {
    RECORD_NONE, /* a free place */
    /* These go with their context. */
    RECORD_POINTER, /* device memory */
    RECORD_ARRAY,
    RECORD_MIPMAP,
    RECORD_LAST_OF_CONTEXT = RECORD_MIPMAP,
    /* See vmm.h. */
    RECORD_PHYSICAL, /* by the handle of cuMemCreate */
    RECORD_MAPPING,  /* by address */
    RECORD_UNMAPPING,
    RECORD_DYING,
    /* See vmm_export.c. */
    RECORD_EXPORTED,   /* by handle: its descriptor */
    RECORD_DESCRIPTOR, /* by descriptor: `bytes` is which file, `handle` whose */
    RECORD_KEPT,       /* by descriptor: memory that it alone keeps; `handle` is which file */
    /* See mempool_account.h. */
    RECORD_POOL,   /* by its handle: where it lies */
    RECORD_POOLED, /* by device pointer */
    RECORD_EXEC,   /* see graph_exec.h */
};

struct record {
    uint64_t key;
    uint64_t bytes; /* as requested */
    union {
        uint64_t handle; /* of a mapping: what is mapped */
        struct {
            uint32_t handles, mappings; /* of physical memory: what keeps it */
        };
        struct {
            uint32_t launched, trims; /* of an executable graph: whether and when */
        };
    };
    uint32_t owner; /* number of a context or a reserve; of physical memory: the ledger's card */
    enum record_kind kind;
};

struct records {
    struct record *places;
    size_t capacity; /* power of two */
    size_t count;
};

/* Makes room for `extra` more, so that records_put can't fail. False without memory. */
bool records_reserve(struct records *records, size_t extra);
void records_put(struct records *records, struct record record);
/* The record, to be changed where it stands, until the next put or take; NULL: there is none. */
struct record *records_find(const struct records *records, enum record_kind kind, uint64_t key);
/* Removes and returns the record; false where there is none. */
bool records_take(struct records *records, enum record_kind kind, uint64_t key,
                  struct record *record);
void records_drop_context(struct records *records, uint32_t context);

#endif
