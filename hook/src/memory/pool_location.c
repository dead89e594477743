#include "memory/pool_location.h"

#include "memory/process.h"

/* Without memory for it a pool counts as one made behind our back. */
void pool_places_put(CUmemoryPool pool, const CUmemLocation *location) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    if (records_reserve(&process->records, process->pending + 1)) {
        records_put(&process->records, (struct record){.kind = RECORD_POOL,
                                                       .key = (uint64_t)pool,
                                                       .bytes = (uint64_t)location->type,
                                                       .owner = (uint32_t)location->id});
    }
    process_leave(process);
}

bool pool_places_find(CUmemoryPool pool, CUmemLocation *location) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return false;
    }
    const struct record *found = records_find(&process->records, RECORD_POOL, (uint64_t)pool);
    if (found != NULL) {
        *location = (CUmemLocation){.type = (int)found->bytes, .id = (int)found->owner};
    }
    process_leave(process);
    return found != NULL;
}

void pool_places_drop(CUmemoryPool pool) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    struct record record;
    if (process == NULL) {
        return;
    }
    records_take(&process->records, RECORD_POOL, (uint64_t)pool, &record);
    process_leave(process);
}
