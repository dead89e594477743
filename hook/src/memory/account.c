#include "memory/account.h"

#include "memory/contexts.h"
#include "memory/vmm_export.h"
#include "shared/paths.h"

/* See account.h for the rule and its source. */
#define SMALL_MAX_BYTES ((uint64_t)1 << 20)
#define SMALL_STEP_BYTES ((uint64_t)512)

static uint64_t round_up(uint64_t bytes, uint64_t step) {
    return bytes / step * step + (bytes % step != 0 ? step : 0);
}

static bool is_small(uint64_t bytes) { return bytes <= SMALL_MAX_BYTES; }

/* The memory that one more request takes of the card, in a context with its present ones. */
static uint64_t cost_units(const struct context *context, uint64_t bytes) {
    if (!is_small(bytes)) {
        return page_units(bytes);
    }
    uint64_t small = context->small_bytes + round_up(bytes, SMALL_STEP_BYTES);
    return page_units(small) - page_units(context->small_bytes);
}

/* Takes a request out of its context's; returns the units that this frees. */
static uint64_t take_out(struct context *context, uint64_t bytes) {
    if (is_small(bytes)) {
        context->small_bytes -= round_up(bytes, SMALL_STEP_BYTES);
    }
    uint64_t units = cost_units(context, bytes);
    context->charged_units -= units;
    return units;
}

static void put_in(struct context *context, uint64_t bytes, uint64_t units) {
    context->charged_units += units;
    if (is_small(bytes)) {
        context->small_bytes += round_up(bytes, SMALL_STEP_BYTES);
    }
}

static void give_back(struct process *process, const struct charge *charge) {
    struct context *context = context_by_number(process, charge->context);
    if (context != NULL) { /* otherwise the memory went back with its context */
        card_limits_return(process, context->card, take_out(context, charge->bytes));
    }
}

static CUresult charge_counted(struct process *process, const struct current_context *current,
                               const struct card_limits *limits, struct charge *charge) {
    struct context *context = context_seen(process, current, limits);
    if (context == NULL || !allocation_table_reserve(&process->allocations, process->pending + 1)) {
        return card_limits_on_error(process);
    }
    if (charge->bytes > limits->share_bytes) {
        ledger_count_denial(&process->ledger, limits->card);
        return CUDA_ERROR_OUT_OF_MEMORY; /* also keeps the sums below from wrapping */
    }
    uint64_t units = cost_units(context, charge->bytes);
    CUresult result = units == 0 ? CUDA_SUCCESS : card_limits_charge(process, limits, units);
    if (result == CUDA_SUCCESS) {
        put_in(context, charge->bytes, units);
        process->pending++;
        charge->context = context->number;
    }
    return result;
}

CUresult account_charge(const struct current_context *current, uint64_t bytes,
                        struct charge *charge) {
    *charge = (struct charge){.bytes = bytes, .uuid = current->uuid};
    struct card_limits limits;
    struct process *process = card_limits_enter(&current->uuid, true, &limits);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result =
        limits.counted ? charge_counted(process, current, &limits, charge) : CUDA_SUCCESS;
    process_leave(process);
    return result;
}

/* Only the difference is charged: both sizes at once might not fit. */
static CUresult resize_counted(struct process *process, struct context *context,
                               const struct card_limits *limits, uint64_t from, uint64_t to) {
    uint64_t freed = take_out(context, from);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (to <= limits->share_bytes) { /* also keeps the sums from wrapping */
        uint64_t needed = cost_units(context, to);
        if (needed <= freed) {
            card_limits_return(process, context->card, freed - needed);
            result = CUDA_SUCCESS;
        } else {
            result = card_limits_charge(process, limits, needed - freed);
        }
        if (result == CUDA_SUCCESS) {
            put_in(context, to, needed);
        }
    }
    if (result != CUDA_SUCCESS) {
        put_in(context, from, freed);
    }
    return result;
}

CUresult account_resize(struct charge *charge, uint64_t bytes) {
    struct process *process = charge->context == 0 ? NULL : process_enter();
    if (process == NULL) {
        return CUDA_SUCCESS;
    }
    struct card_limits limits;
    struct context *context = context_by_number(process, charge->context);
    CUresult result = card_limits_read(process, &charge->uuid, true, &limits);
    if (result == CUDA_SUCCESS && limits.counted && context != NULL) {
        result = resize_counted(process, context, &limits, charge->bytes, bytes);
    }
    if (result == CUDA_SUCCESS) {
        charge->bytes = bytes;
    }
    process_leave(process);
    return result;
}

void account_keep(const struct charge *charge, enum allocation_kind kind, uint64_t handle) {
    struct process *process = charge->context == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    process->pending--;
    if (context_by_number(process, charge->context) != NULL) {
        allocation_table_put(&process->allocations, (struct allocation){.kind = kind,
                                                                        .key = handle,
                                                                        .bytes = charge->bytes,
                                                                        .owner = charge->context});
    }
    process_leave(process);
}

void account_cancel(const struct charge *charge) {
    struct process *process = charge->context == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    process->pending--;
    give_back(process, charge);
    process_leave(process);
}

struct account_release account_release_begin(enum allocation_kind kind, uint64_t handle) {
    struct account_release release = {.kind = kind, .handle = handle};
    struct process *process = process_enter();
    struct allocation record;
    if (process == NULL) {
        return release;
    }
    if (allocation_table_take(&process->allocations, kind, handle, &record)) {
        release.charge = (struct charge){.context = record.owner, .bytes = record.bytes};
        process->pending++; /* its place stays free for a release that fails */
    }
    process_leave(process);
    return release;
}

void account_release_end(const struct account_release *release, bool released) {
    if (released) {
        account_cancel(&release->charge);
    } else {
        account_keep(&release->charge, release->kind, release->handle);
    }
}

CUresult account_view(const CUuuid *uuid, struct view *view) {
    struct card_limits limits;
    vmm_reclaim(); /* first, for a return may open the ledger anew, or find it gone */
    struct process *process = card_limits_enter(uuid, false, &limits);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    uint64_t used = limits.unaccounted_bytes;
    if (limits.counted) {
        ledger_reclaim(&process->ledger, HOOK_LEDGER_PATH, limits.card);
        used += ledger_sum(&process->ledger, limits.card) * VCUDA_UNIT_BYTES;
    }
    *view = (struct view){.share_bytes = limits.share_bytes,
                          .used_bytes = used < limits.share_bytes ? used : limits.share_bytes};
    process_leave(process);
    return CUDA_SUCCESS;
}

CUresult account_processes(const CUuuid *uuid, struct process_usage *list, unsigned *count) {
    *count = 0;
    struct card_limits limits;
    struct process *process = card_limits_enter(uuid, false, &limits);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    if (limits.counted) {
        ledger_reclaim(&process->ledger, HOOK_LEDGER_PATH, limits.card);
        for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
            uint64_t units = ledger_used(&process->ledger, slot, limits.card);
            if (units != 0) {
                list[(*count)++] = (struct process_usage){
                    .pid = ledger_pid(&process->ledger, slot),
                    .slot = slot,
                    .used_bytes = units * VCUDA_UNIT_BYTES,
                    .busy_ns = ledger_busy_ns(&process->ledger, slot, limits.card)};
            }
        }
    }
    process_leave(process);
    return CUDA_SUCCESS;
}
