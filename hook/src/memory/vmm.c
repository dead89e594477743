#include "memory/vmm.h"

#include "memory/tenant.h"

void physical_free(struct process *process, const struct record *physical) {
    if (!physical_is_kept(process, physical)) {
        terms_return(process, (int)physical->owner, page_units(physical->bytes));
    }
}

static CUresult charge_counted(struct process *process, const struct terms *terms,
                               struct physical_charge *charge) {
    if (!records_reserve(&process->records, process->pending + 1)) {
        return terms_on_error(process);
    }
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (charge->bytes <= terms->share_bytes) { /* also keeps the sums from wrapping */
        result = terms_charge(process, terms, page_units(charge->bytes));
    } else {
        ledger_count_denial(&process->ledger, terms->card);
    }
    if (result == CUDA_SUCCESS) {
        process->pending++;
        charge->card = terms->card;
        charge->counted = true;
    }
    return result;
}

CUresult physical_charge(const struct seat *seat, uint64_t bytes, struct physical_charge *charge) {
    ERRNO_KEPT;
    *charge = (struct physical_charge){.bytes = bytes};
    struct terms terms;
    struct process *process = terms_enter(&seat->uuid, true, &terms);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = terms.counted ? charge_counted(process, &terms, charge) : CUDA_SUCCESS;
    process_leave(process);
    return result;
}

void physical_keep(const struct physical_charge *charge, uint64_t handle) {
    ERRNO_KEPT;
    struct process *process = charge->counted ? process_enter() : NULL;
    if (process == NULL) {
        return;
    }
    process->pending--;
    records_put(&process->records, (struct record){.kind = RECORD_PHYSICAL,
                                                   .key = handle,
                                                   .bytes = charge->bytes,
                                                   .owner = (uint32_t)charge->card,
                                                   .handles = 1});
    process_leave(process);
}

void physical_cancel(const struct physical_charge *charge) {
    ERRNO_KEPT;
    struct process *process = charge->counted ? process_enter() : NULL;
    if (process == NULL) {
        return;
    }
    process->pending--;
    terms_return(process, charge->card, page_units(charge->bytes));
    process_leave(process);
}

void physical_retained(uint64_t handle) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    struct record *record = records_find(&process->records, RECORD_PHYSICAL, handle);
    if (record != NULL) {
        record->handles++;
    }
    process_leave(process);
}

struct physical_release physical_release_begin(uint64_t handle) {
    ERRNO_KEPT;
    struct physical_release release = {.handle = handle};
    struct process *process = process_enter();
    if (process == NULL) {
        return release;
    }
    struct record *found = records_find(&process->records, RECORD_PHYSICAL, handle);
    if (found != NULL && found->handles != 0) {
        found->handles--;
        release.counted = true;
        release.last = found->handles == 0 && found->mappings == 0;
        release.card = (int)found->owner;
        release.bytes = found->bytes;
    }
    if (release.last) {
        struct record taken;
        records_take(&process->records, RECORD_PHYSICAL, handle, &taken);
        process->pending++; /* its place stays free for a release that fails */
    }
    process_leave(process);
    return release;
}

void physical_release_end(const struct physical_release *release, bool released) {
    ERRNO_KEPT;
    struct process *process = release->counted ? process_enter() : NULL;
    if (process == NULL) {
        return;
    }
    if (release->last) {
        process->pending--;
    }
    if (released && release->last) {
        physical_free(process, &(struct record){.key = release->handle,
                                                .bytes = release->bytes,
                                                .owner = (uint32_t)release->card});
    } else if (!released && release->last) {
        records_put(&process->records, (struct record){.kind = RECORD_PHYSICAL,
                                                       .key = release->handle,
                                                       .bytes = release->bytes,
                                                       .owner = (uint32_t)release->card,
                                                       .handles = 1});
    } else if (!released) {
        struct record *found = records_find(&process->records, RECORD_PHYSICAL, release->handle);
        if (found != NULL) {
            found->handles++;
        }
    }
    process_leave(process);
}
