#include "memory/vmm.h"

#include "memory/card_limits.h"
#include "memory/vmm_export.h"

void vmm_free(struct process *process, const struct allocation *physical) {
    if (!vmm_is_kept(process, physical)) {
        card_limits_return(process, (int)physical->owner, page_units(physical->bytes));
    }
}

static CUresult charge_counted(struct process *process, const struct card_limits *limits,
                               struct vmm_charge *charge) {
    if (!allocation_table_reserve(&process->allocations, process->pending + 1)) {
        return card_limits_on_error(process);
    }
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (charge->bytes <= limits->share_bytes) { /* also keeps the sums from wrapping */
        result = card_limits_charge(process, limits, page_units(charge->bytes));
    } else {
        ledger_count_denial(&process->ledger, limits->card);
    }
    if (result == CUDA_SUCCESS) {
        process->pending++;
        charge->card = limits->card;
        charge->counted = true;
    }
    return result;
}

CUresult vmm_charge(const struct current_context *current, uint64_t bytes,
                    struct vmm_charge *charge) {
    *charge = (struct vmm_charge){.bytes = bytes};
    struct card_limits limits;
    struct process *process = card_limits_enter(&current->uuid, true, &limits);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = limits.counted ? charge_counted(process, &limits, charge) : CUDA_SUCCESS;
    process_leave(process);
    return result;
}

void vmm_keep(const struct vmm_charge *charge, uint64_t handle) {
    struct process *process = charge->counted ? process_enter() : NULL;
    if (process == NULL) {
        return;
    }
    process->pending--;
    allocation_table_put(&process->allocations, (struct allocation){.kind = ALLOCATION_PHYSICAL,
                                                                    .key = handle,
                                                                    .bytes = charge->bytes,
                                                                    .owner = (uint32_t)charge->card,
                                                                    .handles = 1});
    process_leave(process);
}

void vmm_cancel(const struct vmm_charge *charge) {
    struct process *process = charge->counted ? process_enter() : NULL;
    if (process == NULL) {
        return;
    }
    process->pending--;
    card_limits_return(process, charge->card, page_units(charge->bytes));
    process_leave(process);
}

void vmm_retained(uint64_t handle) {
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    struct allocation *record =
        allocation_table_find(&process->allocations, ALLOCATION_PHYSICAL, handle);
    if (record != NULL) {
        record->handles++;
    }
    process_leave(process);
}

struct vmm_release vmm_release_begin(uint64_t handle) {
    struct vmm_release release = {.handle = handle};
    struct process *process = process_enter();
    if (process == NULL) {
        return release;
    }
    struct allocation *found =
        allocation_table_find(&process->allocations, ALLOCATION_PHYSICAL, handle);
    if (found != NULL && found->handles != 0) {
        found->handles--;
        release.counted = true;
        release.last = found->handles == 0 && found->mappings == 0;
        release.card = (int)found->owner;
        release.bytes = found->bytes;
    }
    if (release.last) {
        struct allocation taken;
        allocation_table_take(&process->allocations, ALLOCATION_PHYSICAL, handle, &taken);
        process->pending++; /* its place stays free for a release that fails */
    }
    process_leave(process);
    return release;
}

void vmm_release_end(const struct vmm_release *release, bool released) {
    struct process *process = release->counted ? process_enter() : NULL;
    if (process == NULL) {
        return;
    }
    if (release->last) {
        process->pending--;
    }
    if (released && release->last) {
        vmm_free(process, &(struct allocation){.key = release->handle,
                                               .bytes = release->bytes,
                                               .owner = (uint32_t)release->card});
    } else if (!released && release->last) {
        allocation_table_put(&process->allocations,
                             (struct allocation){.kind = ALLOCATION_PHYSICAL,
                                                 .key = release->handle,
                                                 .bytes = release->bytes,
                                                 .owner = (uint32_t)release->card,
                                                 .handles = 1});
    } else if (!released) {
        struct allocation *found =
            allocation_table_find(&process->allocations, ALLOCATION_PHYSICAL, release->handle);
        if (found != NULL) {
            found->handles++;
        }
    }
    process_leave(process);
}
