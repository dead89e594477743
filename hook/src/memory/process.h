/*
 * The state of one process. It lies in pages that the kernel wipes in a child (MADV_WIPEONFORK), so
 * that a child, also one of a raw clone, starts empty: its own slot, no allocations, a free lock.
 */
#ifndef HOOK_PROCESS_H
#define HOOK_PROCESS_H

#include "memory/allocation_table.h"
#include "memory/context_reserve.h"
#include "memory/mempool_account.h"
#include "shared/cuda_abi.h"
#include "shared/ledger.h"
#include "shared/shared_page.h"
#include "shared/sys.h"

/* Contexts of one process. Programs have one a card; a few libraries make their own. */
enum { MAX_CONTEXTS = 128 };

struct context {
    uint32_t number; /* 0: free place */
    int card;        /* in the ledger */
    const void *driver;
    CUcontext handle; /* NULL while it is being made */
    CUdevice device;
    bool primary;
    uint32_t retains;       /* of it, so far, by calls that have returned */
    uint64_t charged_units; /* all of it: context, pages of its own, shared pages */
    uint64_t small_bytes;   /* in shared pages */
    uint64_t reserve_units[CONTEXT_RESERVES]; /* of it: by enum context_reserve */
};

/* See mempool_account.h. */
struct mempool {
    uint32_t number; /* 0: free place */
    int card;        /* in the ledger */
    CUuuid uuid;
    struct mempool_name name;
    uint64_t charged_units;
    uint64_t pending_units; /* of it: requests under way */
    uint64_t epoch;
    size_t under_way, given; /* requests; allocations that aren't freed */
    bool destroyed;
};

struct process {
    struct lock lock; /* guards everything below */
    struct shared_page limits, activity;
    struct ledger ledger;
    struct allocation_table allocations;
    size_t pending; /* charges before their record is put */
    size_t kept;    /* records of memory that a descriptor alone keeps */
    uint32_t last_number;
    struct context contexts[MAX_CONTEXTS];
    unsigned mempool_count; /* places ever used */
    struct mempool mempools[MAX_MEMPOOLS];
};

/* Memory of one process that a child finds wiped, made at the first call with this `only`, all
 * zero. NULL where the system gives no such memory. */
void *process_memory(void *_Atomic *only, size_t bytes);

/* Takes the lock. NULL where the system gives no such memory. */
struct process *process_enter(void);
void process_leave(struct process *process);

#endif
