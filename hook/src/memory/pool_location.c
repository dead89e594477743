#include "memory/pool_location.h"

#include "memory/process.h"

/* Without memory for the record a pool counts as one made by an unknown call. */
void pool_location_put(CUmemoryPool pool, const CUmemLocation *location) {
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    if (allocation_table_reserve(&process->allocations, process->pending + 1)) {
        allocation_table_put(&process->allocations,
                             (struct allocation){.kind = ALLOCATION_POOL,
                                                 .key = (uint64_t)pool,
                                                 .bytes = (uint64_t)location->type,
                                                 .owner = (uint32_t)location->id});
    }
    process_leave(process);
}

bool pool_location_find(CUmemoryPool pool, CUmemLocation *location) {
    struct process *process = process_enter();
    if (process == NULL) {
        return false;
    }
    const struct allocation *found =
        allocation_table_find(&process->allocations, ALLOCATION_POOL, (uint64_t)pool);
    if (found != NULL) {
        *location = (CUmemLocation){.type = (int)found->bytes, .id = (int)found->owner};
    }
    process_leave(process);
    return found != NULL;
}

void pool_location_drop(CUmemoryPool pool) {
    struct process *process = process_enter();
    struct allocation record;
    if (process == NULL) {
        return;
    }
    allocation_table_take(&process->allocations, ALLOCATION_POOL, (uint64_t)pool, &record);
    process_leave(process);
}
