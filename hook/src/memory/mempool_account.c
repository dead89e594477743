#include "memory/mempool_account.h"

#include <stdatomic.h>

#include "memory/card_limits.h"

/* Programs without pools skip the lock by it. Stays set, also in a child of fork. */
static _Atomic bool any;

static struct mempool *by_number(struct process *process, uint32_t number) {
    for (unsigned i = 0; number != 0 && i < process->mempool_count; i++) {
        if (process->mempools[i].number == number) {
            return &process->mempools[i];
        }
    }
    return NULL;
}

static bool is_named(const struct mempool *mempool, const struct mempool_name *name) {
    return mempool->number != 0 && !mempool->destroyed && mempool->name.kind == name->kind &&
           mempool->name.driver == name->driver &&
           (name->kind == MEMPOOL_STREAM_ORDERED ? mempool->name.handle == name->handle
                                                 : mempool->name.device == name->device);
}

static struct mempool *find(struct process *process, const struct mempool_name *name) {
    for (unsigned i = 0; i < process->mempool_count; i++) {
        if (is_named(&process->mempools[i], name)) {
            return &process->mempools[i];
        }
    }
    return NULL;
}

static struct mempool *add(struct process *process, const struct mempool_name *name,
                           const struct current_context *current, int card) {
    for (unsigned i = 0; i < MAX_MEMPOOLS; i++) {
        struct mempool *mempool = &process->mempools[i];
        if (mempool->number == 0) {
            process->mempool_count += i == process->mempool_count;
            *mempool = (struct mempool){.number = ++process->last_number,
                                        .card = card,
                                        .uuid = current->uuid,
                                        .name = *name};
            atomic_store(&any, true);
            return mempool;
        }
    }
    return NULL;
}

/* An empty pool leaves its place to another. */
static void drop_if_empty(struct mempool *mempool) {
    if (mempool->charged_units == 0 && mempool->under_way == 0 && mempool->given == 0) {
        mempool->number = 0;
    }
}

/* A destroyed pool ends with its last allocation. */
static void end_if_destroyed(struct process *process, struct mempool *mempool) {
    if (mempool->destroyed && mempool->given == 0 && mempool->under_way == 0) {
        card_limits_return(process, mempool->card, mempool->charged_units);
        mempool->number = 0;
    }
}

static CUresult charge_counted(struct process *process, const struct current_context *current,
                               const struct card_limits *limits, const struct mempool_name *name,
                               uint64_t bytes, struct mempool_charge *charge) {
    if (bytes > limits->share_bytes) {
        ledger_count_denial(&process->ledger, limits->card);
        return CUDA_ERROR_OUT_OF_MEMORY; /* also keeps the sums below from wrapping */
    }
    struct mempool *mempool = find(process, name);
    mempool = mempool == NULL ? add(process, name, current, limits->card) : mempool;
    if (mempool == NULL) {
        return card_limits_on_error(process);
    }
    /* The pool grows by whole pages at least; where it grows by more, the difference is charged
     * after. */
    uint64_t units = page_units(bytes);
    CUresult result = units == 0 ? CUDA_SUCCESS : card_limits_charge(process, limits, units);
    if (result == CUDA_SUCCESS) {
        mempool->charged_units += units;
        mempool->pending_units += units;
        mempool->under_way++;
        *charge = (struct mempool_charge){.number = mempool->number, .units = units};
    } else {
        drop_if_empty(mempool);
    }
    return result;
}

CUresult mempool_charge(const struct current_context *current, const struct mempool_name *name,
                        uint64_t bytes, struct mempool_charge *charge) {
    *charge = (struct mempool_charge){.number = 0};
    struct card_limits limits;
    struct process *process = card_limits_enter(&current->uuid, true, &limits);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = CUDA_SUCCESS;
    if (limits.counted) {
        result = charge_counted(process, current, &limits, name, bytes, charge);
    }
    process_leave(process);
    return result;
}

bool mempool_read(uint32_t number, struct mempool_state *state) {
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return false;
    }
    struct mempool *mempool = by_number(process, number);
    if (mempool != NULL) {
        *state = (struct mempool_state){
            .name = mempool->name, .destroyed = mempool->destroyed, .epoch = mempool->epoch};
    }
    process_leave(process);
    return mempool != NULL;
}

uint32_t mempool_next(uint32_t number) {
    struct process *process = atomic_load(&any) ? process_enter() : NULL;
    uint32_t next = 0;
    if (process == NULL) {
        return 0;
    }
    for (unsigned i = 0; i < process->mempool_count; i++) {
        uint32_t other = process->mempools[i].number;
        if (other > number && (next == 0 || other < next)) {
            next = other;
        }
    }
    process_leave(process);
    return next;
}

/* Charges the growth of a pool, or returns its loss. */
static enum mempool_outcome follow(struct process *process, struct mempool *mempool,
                                   uint64_t target, bool *gave_back) {
    struct card_limits limits;
    if (target < mempool->charged_units) {
        card_limits_return(process, mempool->card, mempool->charged_units - target);
        mempool->charged_units = target;
        if (gave_back != NULL) {
            *gave_back = true;
        }
    } else if (target > mempool->charged_units &&
               card_limits_read(process, &mempool->uuid, true, &limits) == CUDA_SUCCESS &&
               limits.counted) {
        if (card_limits_charge(process, &limits, target - mempool->charged_units) != CUDA_SUCCESS) {
            return MEMPOOL_EXCESS;
        }
        mempool->charged_units = target;
    }
    return MEMPOOL_SETTLED;
}

enum mempool_outcome mempool_settle(uint32_t number, uint64_t epoch, uint64_t held_bytes,
                                    const struct mempool_charge *charge, bool *gave_back) {
    struct process *process = process_enter();
    if (process == NULL) {
        return MEMPOOL_SETTLED;
    }
    struct mempool *mempool = by_number(process, number);
    enum mempool_outcome outcome = MEMPOOL_SETTLED;
    if (mempool != NULL && mempool->epoch != epoch) {
        outcome = MEMPOOL_STALE;
    } else if (mempool != NULL) {
        mempool->epoch++;
        if (charge != NULL) {
            mempool->pending_units -= charge->units;
            mempool->under_way--;
        }
        if (held_bytes != MEMPOOL_UNKNOWN && !mempool->destroyed) {
            uint64_t target = units_up(held_bytes) + mempool->pending_units;
            outcome = follow(process, mempool, target, gave_back);
        } else if (charge != NULL && charge->failed) {
            card_limits_return(process, mempool->card, charge->units);
            mempool->charged_units -= charge->units;
        }
        end_if_destroyed(process, mempool);
        drop_if_empty(mempool);
    }
    process_leave(process);
    return outcome;
}

/* Forgets a pointer; returns the number of its pool, 0: the pointer was unknown. */
static uint32_t forget_pointer(struct process *process, CUdeviceptr pointer) {
    struct allocation record = {.owner = 0};
    if (allocation_table_take(&process->allocations, ALLOCATION_POOLED, pointer, &record)) {
        struct mempool *mempool = by_number(process, record.owner);
        if (mempool != NULL) {
            mempool->given--;
        }
    }
    return record.owner;
}

void mempool_allocated(uint32_t number, CUdeviceptr pointer) {
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    forget_pointer(process, pointer); /* a free that the hook didn't see, such as a graph's */
    struct mempool *mempool = by_number(process, number);
    if (mempool != NULL && allocation_table_reserve(&process->allocations, process->pending + 1)) {
        mempool->given++;
        allocation_table_put(
            &process->allocations,
            (struct allocation){.kind = ALLOCATION_POOLED, .key = pointer, .owner = number});
    }
    process_leave(process);
}

uint32_t mempool_free_begin(CUdeviceptr pointer) {
    struct process *process = atomic_load(&any) ? process_enter() : NULL;
    if (process == NULL) {
        return 0;
    }
    uint32_t number = forget_pointer(process, pointer);
    struct mempool *mempool = by_number(process, number);
    if (mempool != NULL) {
        mempool->under_way++; /* stays until mempool_free_end */
    }
    process_leave(process);
    return number;
}

void mempool_free_end(uint32_t number) {
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    struct mempool *mempool = by_number(process, number);
    if (mempool != NULL) {
        mempool->under_way--;
        end_if_destroyed(process, mempool);
    }
    process_leave(process);
}

uint32_t mempool_destroy_begin(const struct driver *driver, uint64_t pool) {
    struct mempool_name name = {.kind = MEMPOOL_STREAM_ORDERED, .driver = driver, .handle = pool};
    struct process *process = atomic_load(&any) ? process_enter() : NULL;
    uint32_t number = 0;
    if (process == NULL) {
        return 0;
    }
    struct mempool *mempool = find(process, &name);
    if (mempool != NULL) {
        mempool->destroyed = true;
        mempool->under_way++;
        number = mempool->number;
    }
    process_leave(process);
    return number;
}

void mempool_destroy_end(uint32_t number, bool destroyed) {
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    struct mempool *mempool = by_number(process, number);
    if (mempool != NULL) {
        mempool->destroyed = destroyed;
        mempool->under_way--;
        end_if_destroyed(process, mempool);
    }
    process_leave(process);
}

void mempool_device_reset(const struct driver *driver, CUdevice device) {
    struct process *process = atomic_load(&any) ? process_enter() : NULL;
    for (unsigned i = 0; process != NULL && i < process->mempool_count; i++) {
        struct mempool *mempool = &process->mempools[i];
        if (mempool->number != 0 && mempool->destroyed && mempool->name.driver == driver &&
            mempool->name.device == device) {
            mempool->given = 0;
            end_if_destroyed(process, mempool);
        }
    }
    if (process != NULL) {
        process_leave(process);
    }
}
