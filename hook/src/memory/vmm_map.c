/*
 * Mappings keep physical memory. While the driver unmaps, their records wait under other kinds, by
 * address, which nobody else maps until the call is over: the handle may be given out meanwhile.
 */
#include "memory/tenant.h"
#include "memory/vmm.h"

CUresult physical_map_begin(uint64_t handle, bool *known) {
    ERRNO_KEPT;
    *known = false;
    struct process *process = process_enter();
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = CUDA_SUCCESS;
    if (records_find(&process->records, RECORD_PHYSICAL, handle) != NULL) {
        *known = records_reserve(&process->records, process->pending + 1);
        result = *known ? CUDA_SUCCESS : terms_on_error(process);
    }
    if (*known) {
        process->pending++;
        records_find(&process->records, RECORD_PHYSICAL, handle)->mappings++;
    }
    process_leave(process);
    return result;
}

/* A mapping less; true where it was the last thing that kept the memory. */
static bool lose_mapping(struct process *process, uint64_t handle, struct record *physical) {
    struct record *found = records_find(&process->records, RECORD_PHYSICAL, handle);
    if (found == NULL || found->mappings == 0) {
        return false;
    }
    found->mappings--;
    return found->mappings == 0 && found->handles == 0 &&
           records_take(&process->records, RECORD_PHYSICAL, handle, physical);
}

void physical_map_end(uint64_t handle, uint64_t address, uint64_t bytes, bool mapped) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    process->pending--;
    struct record physical;
    if (mapped) {
        records_put(&process->records,
                    (struct record){
                        .kind = RECORD_MAPPING, .key = address, .bytes = bytes, .handle = handle});
    } else if (lose_mapping(process, handle, &physical)) {
        physical_free(process, &physical);
    }
    process_leave(process);
}

void physical_unmap_begin(uint64_t address, uint64_t bytes) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    struct record mapping, physical;
    if (process == NULL) {
        return;
    }
    for (uint64_t end = address + bytes;
         address < end && records_take(&process->records, RECORD_MAPPING, address, &mapping);
         address += mapping.bytes) {
        mapping.kind = RECORD_UNMAPPING;
        records_put(&process->records, mapping);
        if (lose_mapping(process, mapping.handle, &physical)) {
            physical.kind = RECORD_DYING;
            physical.key = address;
            records_put(&process->records, physical);
        }
    }
    process_leave(process);
}

/* As if the driver hadn't been asked. */
static void restore(struct process *process, struct record mapping) {
    struct record physical;
    if (records_take(&process->records, RECORD_DYING, mapping.key, &physical)) {
        physical.kind = RECORD_PHYSICAL;
        physical.key = mapping.handle;
        physical.mappings = 1;
        records_put(&process->records, physical);
    } else {
        struct record *found = records_find(&process->records, RECORD_PHYSICAL, mapping.handle);
        if (found != NULL) {
            found->mappings++;
        }
    }
    mapping.kind = RECORD_MAPPING;
    records_put(&process->records, mapping);
}

void physical_unmap_end(uint64_t address, uint64_t bytes, bool unmapped) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    struct record mapping, physical;
    if (process == NULL) {
        return;
    }
    for (uint64_t end = address + bytes;
         address < end && records_take(&process->records, RECORD_UNMAPPING, address, &mapping);
         address += mapping.bytes) {
        if (!unmapped) {
            restore(process, mapping);
        } else if (records_take(&process->records, RECORD_DYING, address, &physical)) {
            physical.key = mapping.handle;
            physical_free(process, &physical);
        }
    }
    process_leave(process);
}
