#include "memory/graph_exec.h"

#include <stdatomic.h>

#include "memory/process.h"

/* Stays set, also in a child of fork. */
static _Atomic int devices;
/* Counts trims: the memory of launches before the last one isn't in place. */
static _Atomic uint32_t trims;

CUdevice graph_exec_devices(void) { return atomic_load(&devices); }

void graph_exec_trimmed(void) { atomic_fetch_add(&trims, 1); }

/* Handles are pointers of this process: their upper bits are free. */
static uint64_t key_of(CUgraphExec exec, CUdevice device) {
    return (uint64_t)exec * GRAPH_EXEC_DEVICES + (uint64_t)device;
}

/* Without memory for the record the graph is charged after its launch only. */
void graph_exec_put(CUgraphExec exec, CUdevice device, uint64_t bytes) {
    struct process *process = bytes != 0 || device < graph_exec_devices() ? process_enter() : NULL;
    struct allocation record;
    if (process == NULL) {
        return;
    }
    uint64_t key = key_of(exec, device);
    allocation_table_take(&process->allocations, ALLOCATION_GRAPH_EXEC, key, &record);
    if (bytes != 0 && allocation_table_reserve(&process->allocations, process->pending + 1)) {
        allocation_table_put(
            &process->allocations,
            (struct allocation){.kind = ALLOCATION_GRAPH_EXEC, .key = key, .bytes = bytes});
        if (device >= atomic_load(&devices)) {
            atomic_store(&devices, device + 1); /* under the process's lock */
        }
    }
    process_leave(process);
}

bool graph_exec_need(CUgraphExec exec, CUdevice device, uint64_t *bytes) {
    struct process *process = process_enter();
    if (process == NULL) {
        return false;
    }
    const struct allocation *found =
        allocation_table_find(&process->allocations, ALLOCATION_GRAPH_EXEC, key_of(exec, device));
    if (found != NULL) {
        bool in_place = found->launched != 0 && found->trims == atomic_load(&trims);
        *bytes = in_place ? 0 : found->bytes;
    }
    process_leave(process);
    return found != NULL;
}

void graph_exec_launched(CUgraphExec exec, CUdevice device) {
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    struct allocation *found =
        allocation_table_find(&process->allocations, ALLOCATION_GRAPH_EXEC, key_of(exec, device));
    if (found != NULL) {
        found->launched = 1;
        found->trims = atomic_load(&trims);
    }
    process_leave(process);
}
