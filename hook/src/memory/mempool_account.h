/*
 * Memory that the driver keeps of its own accord and tells the amount of: a pool of the
 * stream-ordered allocator, or what it holds on a device for graphs. Charged is what it has
 * reserved, so what is freed to it and taken again isn't charged twice.
 *
 * Before the driver is asked the whole request is charged, for the reserve may grow by that; after
 * it, and whenever a reserve may have shrunk, the driver is asked what it holds (reserve_settle).
 * The driver is never called here.
 */
#ifndef HOOK_MEMPOOL_ACCOUNT_H
#define HOOK_MEMPOOL_ACCOUNT_H

#include "memory/account.h"

/* Pools of one process that hold something; programs have one or two a card. */
enum { MAX_RESERVES = 1024 };
#define RESERVE_UNKNOWN UINT64_MAX

enum reserve_kind { RESERVE_POOL, RESERVE_GRAPHS };

/* Which one, as its gates know it. */
struct reserve_name {
    enum reserve_kind kind;
    const struct driver *driver;
    CUdevice device;
    uint64_t handle; /* of the pool */
};

/* A request that is under way. */
struct reserve_charge {
    uint32_t number; /* 0: not counted (on_error is open) */
    uint64_t units;
    bool failed; /* the driver refused: nothing was taken for it */
};

/* SUCCESS, OUT_OF_MEMORY or NOT_PERMITTED. After SUCCESS one reserve_settle that is given the
 * charge. `bytes` 0 asks for no more than is there. */
CUresult reserve_charge(const struct seat *seat, const struct reserve_name *name, uint64_t bytes,
                        struct reserve_charge *charge);

/* What is known of a reserve before the driver is asked what it holds. */
struct reserve_look {
    struct reserve_name name;
    bool destroyed; /* the driver doesn't answer for it any more */
    uint64_t epoch; /* counts settlings, so that an answer that is out of date is found out */
};
bool reserve_look(uint32_t number, struct reserve_look *look);
/* Every one that this process has, one after the other: the number that follows `number`, 0 at the
 * end. Costs nothing while there is none. */
uint32_t reserve_next(uint32_t number);

/* How an answer of the driver was taken. */
enum reserve_outcome {
    RESERVE_SETTLED, /* charged is what is held and what is under way */
    RESERVE_STALE,   /* another thread settled meanwhile: look and ask again */
    RESERVE_EXCESS,  /* it holds more than fits; the charge stayed as it was */
};
/* `held_bytes` is RESERVE_UNKNOWN where the driver didn't answer: then nothing goes back but a
 * charge that failed. `charge`, which may be NULL, is over with this, unless the answer is stale.
 * Sets `gave_back`, which may be NULL, when something went back. */
enum reserve_outcome reserve_settle(uint32_t number, uint64_t epoch, uint64_t held_bytes,
                                    const struct reserve_charge *charge, bool *gave_back);

/* What a pool gave out, to know the last allocation of a pool that was destroyed: until that is
 * freed the driver keeps all of it (cuda.h, cuMemPoolDestroy). */
void reserve_gave(uint32_t number, CUdeviceptr pointer);
uint32_t reserve_take(CUdeviceptr pointer); /* the number, 0: of no pool */
void reserve_freed(uint32_t number);
/* Around the end of a pool, whose handle may be given out again at once. */
uint32_t reserve_destroy_begin(const struct driver *driver, uint64_t pool);
void reserve_destroy_end(uint32_t number, bool destroyed);
/* A reset of the device freed what came from pools that are gone. */
void reserve_forget(const struct driver *driver, CUdevice device);

#endif
