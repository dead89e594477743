#include "memory/graph_exec.h"

#include <stdatomic.h>

#include "memory/process.h"

/* Stays set, also in a child of fork. */
static _Atomic int devices;
/* Counts trims: what was launched before the last one isn't in place. */
static _Atomic uint32_t trims;

CUdevice execs_devices(void) { return atomic_load(&devices); }

void execs_trimmed(void) { atomic_fetch_add(&trims, 1); }

/* Handles are pointers of this process: their upper bits are free. */
static uint64_t key_of(CUgraphExec exec, CUdevice device) {
    return (uint64_t)exec * EXEC_DEVICES + (uint64_t)device;
}

/* Without memory for it what it takes is charged after its launch only. */
void execs_put(CUgraphExec exec, CUdevice device, uint64_t bytes) {
    ERRNO_KEPT;
    struct process *process = bytes != 0 || device < execs_devices() ? process_enter() : NULL;
    struct record record;
    if (process == NULL) {
        return;
    }
    uint64_t key = key_of(exec, device);
    records_take(&process->records, RECORD_EXEC, key, &record);
    if (bytes != 0 && records_reserve(&process->records, process->pending + 1)) {
        records_put(&process->records,
                    (struct record){.kind = RECORD_EXEC, .key = key, .bytes = bytes});
        if (device >= atomic_load(&devices)) {
            atomic_store(&devices, device + 1); /* under the process's lock */
        }
    }
    process_leave(process);
}

bool execs_need(CUgraphExec exec, CUdevice device, uint64_t *bytes) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return false;
    }
    const struct record *found = records_find(&process->records, RECORD_EXEC, key_of(exec, device));
    if (found != NULL) {
        bool in_place = found->launched != 0 && found->trims == atomic_load(&trims);
        *bytes = in_place ? 0 : found->bytes;
    }
    process_leave(process);
    return found != NULL;
}

void execs_launched(CUgraphExec exec, CUdevice device) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    struct record *found = records_find(&process->records, RECORD_EXEC, key_of(exec, device));
    if (found != NULL) {
        found->launched = 1;
        found->trims = atomic_load(&trims);
    }
    process_leave(process);
}
