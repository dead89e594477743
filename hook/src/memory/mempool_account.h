/*
 * Memory that the driver keeps of its own accord and tells the amount of: a pool of the
 * stream-ordered allocator, or what it holds on a device for graphs. Charged is what it has
 * reserved, so what is freed to it and taken again isn't charged twice.
 *
 * Before the driver is asked the whole request is charged, for the pool may grow by that; after
 * it, and whenever a pool may have shrunk, the driver is asked what it holds (mempool_settle).
 * The driver is never called here.
 */
#ifndef HOOK_MEMPOOL_ACCOUNT_H
#define HOOK_MEMPOOL_ACCOUNT_H

#include "memory/account.h"

/* Pools of one process that hold memory; programs have one or two a card. */
enum { MAX_MEMPOOLS = 1024 };
#define MEMPOOL_UNKNOWN UINT64_MAX

enum mempool_kind { MEMPOOL_STREAM_ORDERED, MEMPOOL_GRAPH };

/* The pool, as its gates know it. */
struct mempool_name {
    enum mempool_kind kind;
    const struct driver *driver;
    CUdevice device;
    uint64_t handle; /* of the pool */
};

/* A request that is under way. */
struct mempool_charge {
    uint32_t number; /* 0: not counted (on_error is open) */
    uint64_t units;
    bool failed; /* the driver refused: the request took no memory */
};

/* SUCCESS, OUT_OF_MEMORY or NOT_PERMITTED. After SUCCESS one mempool_settle that is given the
 * charge. `bytes` 0 asks for the memory that is there. */
CUresult mempool_charge(const struct current_context *current, const struct mempool_name *name,
                        uint64_t bytes, struct mempool_charge *charge);

/* The known state of a pool before the driver is asked for its size. */
struct mempool_state {
    struct mempool_name name;
    bool destroyed; /* the driver doesn't answer for it any more */
    uint64_t epoch; /* counts settlings: an answer that is out of date shows by it */
};
bool mempool_read(uint32_t number, struct mempool_state *state);
/* All pools of this process, one after the other: the number that follows `number`, 0 at the end.
 * Free of cost while there is none. */
uint32_t mempool_next(uint32_t number);

/* The outcome of an answer of the driver. */
enum mempool_outcome {
    MEMPOOL_SETTLED, /* the charge is the held memory and the requests under way */
    MEMPOOL_STALE,   /* another thread settled meanwhile: look and ask again */
    MEMPOOL_EXCESS,  /* the pool holds more than fits; the charge stayed as it was */
};
/* `held_bytes` is MEMPOOL_UNKNOWN where the driver didn't answer: then only a failed charge goes
 * back. `charge`, which may be NULL, is over with this, unless the answer is stale. Sets
 * `gave_back`, which may be NULL, when memory went back. */
enum mempool_outcome mempool_settle(uint32_t number, uint64_t epoch, uint64_t held_bytes,
                                    const struct mempool_charge *charge, bool *gave_back);

/* The allocations of a pool, to know the last one of a destroyed pool: until that is freed the
 * driver keeps all of the pool (cuda.h, cuMemPoolDestroy). */
void mempool_allocated(uint32_t number, CUdeviceptr pointer);
uint32_t mempool_free_begin(CUdeviceptr pointer); /* the number, 0: of no pool */
void mempool_free_end(uint32_t number);
/* Around the end of a pool: its handle may be given out again at once. */
uint32_t mempool_destroy_begin(const struct driver *driver, uint64_t pool);
void mempool_destroy_end(uint32_t number, bool destroyed);
/* A reset of the device freed the allocations of destroyed pools. */
void mempool_device_reset(const struct driver *driver, CUdevice device);

#endif
