#include "memory/mempool_account.h"

#include <stdatomic.h>

#include "memory/tenant.h"

/* So that programs without pools pay nothing. Stays set, also in a child of fork. */
static _Atomic bool any;

static struct reserve *by_number(struct process *process, uint32_t number) {
    for (unsigned i = 0; number != 0 && i < process->reserve_count; i++) {
        if (process->reserves[i].number == number) {
            return &process->reserves[i];
        }
    }
    return NULL;
}

static bool is_named(const struct reserve *reserve, const struct reserve_name *name) {
    return reserve->number != 0 && !reserve->destroyed && reserve->name.kind == name->kind &&
           reserve->name.driver == name->driver &&
           (name->kind == RESERVE_POOL ? reserve->name.handle == name->handle
                                       : reserve->name.device == name->device);
}

static struct reserve *find(struct process *process, const struct reserve_name *name) {
    for (unsigned i = 0; i < process->reserve_count; i++) {
        if (is_named(&process->reserves[i], name)) {
            return &process->reserves[i];
        }
    }
    return NULL;
}

static struct reserve *add(struct process *process, const struct reserve_name *name,
                           const struct seat *seat, int card) {
    for (unsigned i = 0; i < MAX_RESERVES; i++) {
        struct reserve *reserve = &process->reserves[i];
        if (reserve->number == 0) {
            process->reserve_count += i == process->reserve_count;
            *reserve = (struct reserve){
                .number = ++process->last_number, .card = card, .uuid = seat->uuid, .name = *name};
            atomic_store(&any, true);
            return reserve;
        }
    }
    return NULL;
}

/* What holds nothing leaves its place to another. */
static void drop_if_empty(struct reserve *reserve) {
    if (reserve->charged_units == 0 && reserve->under_way == 0 && reserve->given == 0) {
        reserve->number = 0;
    }
}

/* A destroyed pool ends with its last allocation. */
static void end_if_destroyed(struct process *process, struct reserve *reserve) {
    if (reserve->destroyed && reserve->given == 0 && reserve->under_way == 0) {
        terms_return(process, reserve->card, reserve->charged_units);
        reserve->number = 0;
    }
}

static CUresult charge_counted(struct process *process, const struct seat *seat,
                               const struct terms *terms, const struct reserve_name *name,
                               uint64_t bytes, struct reserve_charge *charge) {
    if (bytes > terms->share_bytes) {
        ledger_count_denial(&process->ledger, terms->card);
        return CUDA_ERROR_OUT_OF_MEMORY; /* also keeps the sums below from wrapping */
    }
    struct reserve *reserve = find(process, name);
    reserve = reserve == NULL ? add(process, name, seat, terms->card) : reserve;
    if (reserve == NULL) {
        return terms_on_error(process);
    }
    /* It grows by whole pages at least; by more, the difference is charged after. */
    uint64_t units = page_units(bytes);
    CUresult result = units == 0 ? CUDA_SUCCESS : terms_charge(process, terms, units);
    if (result == CUDA_SUCCESS) {
        reserve->charged_units += units;
        reserve->pending_units += units;
        reserve->under_way++;
        *charge = (struct reserve_charge){.number = reserve->number, .units = units};
    } else {
        drop_if_empty(reserve);
    }
    return result;
}

CUresult reserve_charge(const struct seat *seat, const struct reserve_name *name, uint64_t bytes,
                        struct reserve_charge *charge) {
    ERRNO_KEPT;
    *charge = (struct reserve_charge){.number = 0};
    struct terms terms;
    struct process *process = terms_enter(&seat->uuid, true, &terms);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = CUDA_SUCCESS;
    if (terms.counted) {
        result = charge_counted(process, seat, &terms, name, bytes, charge);
    }
    process_leave(process);
    return result;
}

bool reserve_look(uint32_t number, struct reserve_look *look) {
    ERRNO_KEPT;
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return false;
    }
    struct reserve *reserve = by_number(process, number);
    if (reserve != NULL) {
        *look = (struct reserve_look){
            .name = reserve->name, .destroyed = reserve->destroyed, .epoch = reserve->epoch};
    }
    process_leave(process);
    return reserve != NULL;
}

uint32_t reserve_next(uint32_t number) {
    ERRNO_KEPT;
    struct process *process = atomic_load(&any) ? process_enter() : NULL;
    uint32_t next = 0;
    if (process == NULL) {
        return 0;
    }
    for (unsigned i = 0; i < process->reserve_count; i++) {
        uint32_t other = process->reserves[i].number;
        if (other > number && (next == 0 || other < next)) {
            next = other;
        }
    }
    process_leave(process);
    return next;
}

/* Charges what more is held, or returns what less is. */
static enum reserve_outcome follow(struct process *process, struct reserve *reserve,
                                   uint64_t target, bool *gave_back) {
    struct terms terms;
    if (target < reserve->charged_units) {
        terms_return(process, reserve->card, reserve->charged_units - target);
        reserve->charged_units = target;
        if (gave_back != NULL) {
            *gave_back = true;
        }
    } else if (target > reserve->charged_units &&
               terms_read(process, &reserve->uuid, true, &terms) == CUDA_SUCCESS && terms.counted) {
        if (terms_charge(process, &terms, target - reserve->charged_units) != CUDA_SUCCESS) {
            return RESERVE_EXCESS;
        }
        reserve->charged_units = target;
    }
    return RESERVE_SETTLED;
}

enum reserve_outcome reserve_settle(uint32_t number, uint64_t epoch, uint64_t held_bytes,
                                    const struct reserve_charge *charge, bool *gave_back) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return RESERVE_SETTLED;
    }
    struct reserve *reserve = by_number(process, number);
    enum reserve_outcome outcome = RESERVE_SETTLED;
    if (reserve != NULL && reserve->epoch != epoch) {
        outcome = RESERVE_STALE;
    } else if (reserve != NULL) {
        reserve->epoch++;
        if (charge != NULL) {
            reserve->pending_units -= charge->units;
            reserve->under_way--;
        }
        if (held_bytes != RESERVE_UNKNOWN && !reserve->destroyed) {
            uint64_t target = units_up(held_bytes) + reserve->pending_units;
            outcome = follow(process, reserve, target, gave_back);
        } else if (charge != NULL && charge->failed) {
            terms_return(process, reserve->card, charge->units);
            reserve->charged_units -= charge->units;
        }
        end_if_destroyed(process, reserve);
        drop_if_empty(reserve);
    }
    process_leave(process);
    return outcome;
}

/* Forgets what is known of a pointer; the number of its reserve, 0: nothing was. */
static uint32_t forget_pointer(struct process *process, CUdeviceptr pointer) {
    struct record record = {.owner = 0};
    if (records_take(&process->records, RECORD_POOLED, pointer, &record)) {
        struct reserve *reserve = by_number(process, record.owner);
        if (reserve != NULL) {
            reserve->given--;
        }
    }
    return record.owner;
}

void reserve_gave(uint32_t number, CUdeviceptr pointer) {
    ERRNO_KEPT;
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    forget_pointer(process, pointer); /* a free that we didn't see, such as a graph's */
    struct reserve *reserve = by_number(process, number);
    if (reserve != NULL && records_reserve(&process->records, process->pending + 1)) {
        reserve->given++;
        records_put(&process->records,
                    (struct record){.kind = RECORD_POOLED, .key = pointer, .owner = number});
    }
    process_leave(process);
}

uint32_t reserve_take(CUdeviceptr pointer) {
    ERRNO_KEPT;
    struct process *process = atomic_load(&any) ? process_enter() : NULL;
    if (process == NULL) {
        return 0;
    }
    uint32_t number = forget_pointer(process, pointer);
    struct reserve *reserve = by_number(process, number);
    if (reserve != NULL) {
        reserve->under_way++; /* stays until reserve_freed */
    }
    process_leave(process);
    return number;
}

void reserve_freed(uint32_t number) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    struct reserve *reserve = by_number(process, number);
    if (reserve != NULL) {
        reserve->under_way--;
        end_if_destroyed(process, reserve);
    }
    process_leave(process);
}

uint32_t reserve_destroy_begin(const struct driver *driver, uint64_t pool) {
    ERRNO_KEPT;
    struct reserve_name name = {.kind = RESERVE_POOL, .driver = driver, .handle = pool};
    struct process *process = atomic_load(&any) ? process_enter() : NULL;
    uint32_t number = 0;
    if (process == NULL) {
        return 0;
    }
    struct reserve *reserve = find(process, &name);
    if (reserve != NULL) {
        reserve->destroyed = true;
        reserve->under_way++;
        number = reserve->number;
    }
    process_leave(process);
    return number;
}

void reserve_destroy_end(uint32_t number, bool destroyed) {
    ERRNO_KEPT;
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    struct reserve *reserve = by_number(process, number);
    if (reserve != NULL) {
        reserve->destroyed = destroyed;
        reserve->under_way--;
        end_if_destroyed(process, reserve);
    }
    process_leave(process);
}

void reserve_forget(const struct driver *driver, CUdevice device) {
    ERRNO_KEPT;
    struct process *process = atomic_load(&any) ? process_enter() : NULL;
    for (unsigned i = 0; process != NULL && i < process->reserve_count; i++) {
        struct reserve *reserve = &process->reserves[i];
        if (reserve->number != 0 && reserve->destroyed && reserve->name.driver == driver &&
            reserve->name.device == device) {
            reserve->given = 0;
            end_if_destroyed(process, reserve);
        }
    }
    if (process != NULL) {
        process_leave(process);
    }
}
