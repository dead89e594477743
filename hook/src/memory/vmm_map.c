#include "memory/vmm_map.h"

#include "memory/card_limits.h"

CUresult vmm_map_begin(uint64_t handle, bool *known) {
    *known = false;
    struct process *process = process_enter();
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = CUDA_SUCCESS;
    if (allocation_table_find(&process->allocations, ALLOCATION_PHYSICAL, handle) != NULL) {
        *known = allocation_table_reserve(&process->allocations, process->pending + 1);
        result = *known ? CUDA_SUCCESS : card_limits_on_error(process);
    }
    if (*known) {
        process->pending++;
        allocation_table_find(&process->allocations, ALLOCATION_PHYSICAL, handle)->mappings++;
    }
    process_leave(process);
    return result;
}

/* One mapping less; true where it was the last holder of the memory. */
static bool lose_mapping(struct process *process, uint64_t handle, struct allocation *physical) {
    struct allocation *found =
        allocation_table_find(&process->allocations, ALLOCATION_PHYSICAL, handle);
    if (found == NULL || found->mappings == 0) {
        return false;
    }
    found->mappings--;
    return found->mappings == 0 && found->handles == 0 &&
           allocation_table_take(&process->allocations, ALLOCATION_PHYSICAL, handle, physical);
}

void vmm_map_end(uint64_t handle, uint64_t address, uint64_t bytes, bool mapped) {
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    process->pending--;
    struct allocation physical;
    if (mapped) {
        allocation_table_put(&process->allocations, (struct allocation){.kind = ALLOCATION_MAPPING,
                                                                        .key = address,
                                                                        .bytes = bytes,
                                                                        .handle = handle});
    } else if (lose_mapping(process, handle, &physical)) {
        vmm_free(process, &physical);
    }
    process_leave(process);
}

void vmm_unmap_begin(uint64_t address, uint64_t bytes) {
    struct process *process = process_enter();
    struct allocation mapping, physical;
    if (process == NULL) {
        return;
    }
    for (uint64_t end = address + bytes;
         address < end &&
         allocation_table_take(&process->allocations, ALLOCATION_MAPPING, address, &mapping);
         address += mapping.bytes) {
        mapping.kind = ALLOCATION_UNMAPPING;
        allocation_table_put(&process->allocations, mapping);
        if (lose_mapping(process, mapping.handle, &physical)) {
            physical.kind = ALLOCATION_DYING;
            physical.key = address;
            allocation_table_put(&process->allocations, physical);
        }
    }
    process_leave(process);
}

/* The state before the driver's call. */
static void restore(struct process *process, struct allocation mapping) {
    struct allocation physical;
    if (allocation_table_take(&process->allocations, ALLOCATION_DYING, mapping.key, &physical)) {
        physical.kind = ALLOCATION_PHYSICAL;
        physical.key = mapping.handle;
        physical.mappings = 1;
        allocation_table_put(&process->allocations, physical);
    } else {
        struct allocation *found =
            allocation_table_find(&process->allocations, ALLOCATION_PHYSICAL, mapping.handle);
        if (found != NULL) {
            found->mappings++;
        }
    }
    mapping.kind = ALLOCATION_MAPPING;
    allocation_table_put(&process->allocations, mapping);
}

void vmm_unmap_end(uint64_t address, uint64_t bytes, bool unmapped) {
    struct process *process = process_enter();
    struct allocation mapping, physical;
    if (process == NULL) {
        return;
    }
    for (uint64_t end = address + bytes;
         address < end &&
         allocation_table_take(&process->allocations, ALLOCATION_UNMAPPING, address, &mapping);
         address += mapping.bytes) {
        if (!unmapped) {
            restore(process, mapping);
        } else if (allocation_table_take(&process->allocations, ALLOCATION_DYING, address,
                                         &physical)) {
            physical.key = mapping.handle;
            vmm_free(process, &physical);
        }
    }
    process_leave(process);
}
