#include "memory/vmm_export.h"

#include <sys/stat.h>

#include "memory/card_limits.h"

/* The file that is open at the descriptor; 0: none. A number that was closed may be given out
 * again. */
static uint64_t file_at(int fd) {
    struct stat found;
    if (!sys_stat(fd, &found)) {
        return 0;
    }
    uint64_t file = found.st_dev * UINT64_C(0x9e3779b97f4a7c15) ^ found.st_rdev;
    file = file * UINT64_C(0x9e3779b97f4a7c15) ^ found.st_ino;
    return file == 0 ? 1 : file;
}

/* The memory of a descriptor that was closed since: its number is another's now. */
static void drop_stale(struct process *process, int fd) {
    struct allocation kept;
    const struct allocation *found =
        allocation_table_find(&process->allocations, ALLOCATION_KEPT, (uint64_t)fd);
    if (found != NULL && found->handle != file_at(fd)) {
        allocation_table_take(&process->allocations, ALLOCATION_KEPT, (uint64_t)fd, &kept);
        card_limits_return(process, (int)kept.owner, page_units(kept.bytes));
        process->kept--;
    }
}

static void note(struct process *process, uint64_t handle, int fd) {
    uint64_t file = file_at(fd);
    if (file == 0 || !allocation_table_reserve(&process->allocations, process->pending + 2)) {
        return; /* then the memory that it keeps is unaccounted */
    }
    allocation_table_put(
        &process->allocations,
        (struct allocation){.kind = ALLOCATION_EXPORTED, .key = handle, .handle = (uint64_t)fd});
    allocation_table_put(&process->allocations, (struct allocation){.kind = ALLOCATION_DESCRIPTOR,
                                                                    .key = (uint64_t)fd,
                                                                    .bytes = file,
                                                                    .handle = handle});
}

void vmm_exported(uint64_t handle, int fd) {
    struct process *process = process_enter();
    struct allocation kept;
    if (process == NULL) {
        return;
    }
    if (allocation_table_take(&process->allocations, ALLOCATION_KEPT, (uint64_t)fd, &kept)) {
        card_limits_return(process, (int)kept.owner,
                           page_units(kept.bytes)); /* the number is new */
        process->kept--;
    }
    if (allocation_table_find(&process->allocations, ALLOCATION_PHYSICAL, handle) != NULL) {
        note(process, handle, fd);
    }
    process_leave(process);
}

bool vmm_is_kept(struct process *process, const struct allocation *physical) {
    struct allocation exported, descriptor;
    if (!allocation_table_take(&process->allocations, ALLOCATION_EXPORTED, physical->key,
                               &exported)) {
        return false;
    }
    struct allocation *found =
        allocation_table_find(&process->allocations, ALLOCATION_DESCRIPTOR, exported.handle);
    if (found == NULL || found->handle != physical->key) {
        return false; /* another export has its number by now */
    }
    allocation_table_take(&process->allocations, ALLOCATION_DESCRIPTOR, exported.handle,
                          &descriptor);
    if (file_at((int)descriptor.key) != descriptor.bytes) {
        return false;
    }
    allocation_table_put(&process->allocations, (struct allocation){.kind = ALLOCATION_KEPT,
                                                                    .key = descriptor.key,
                                                                    .bytes = physical->bytes,
                                                                    .handle = descriptor.bytes,
                                                                    .owner = physical->owner});
    process->kept++;
    return true;
}

void vmm_imported(uint64_t handle, int fd) {
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    drop_stale(process, fd);
    struct allocation *known =
        allocation_table_find(&process->allocations, ALLOCATION_PHYSICAL, handle);
    struct allocation kept;
    if (known != NULL) {
        known->handles++;
    } else if (allocation_table_take(&process->allocations, ALLOCATION_KEPT, (uint64_t)fd, &kept)) {
        process->kept--;
        allocation_table_put(&process->allocations, (struct allocation){.kind = ALLOCATION_PHYSICAL,
                                                                        .key = handle,
                                                                        .bytes = kept.bytes,
                                                                        .owner = kept.owner,
                                                                        .handles = 1});
        note(process, handle, fd);
    }
    process_leave(process);
}

static bool settle(struct process *process) {
    size_t before = process->kept;
    for (size_t i = 0; process->kept != 0 && i < process->allocations.capacity;) {
        const struct allocation *place = &process->allocations.places[i];
        size_t kept = process->kept;
        if (place->kind == ALLOCATION_KEPT) {
            drop_stale(process, (int)place->key);
        }
        i += kept == process->kept; /* else another record may stand here now */
    }
    return process->kept != before;
}

bool vmm_reclaim(void) {
    struct process *process = process_enter();
    bool gave_back = process != NULL && settle(process);
    if (process != NULL) {
        process_leave(process);
    }
    return gave_back;
}
