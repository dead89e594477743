#include "account.h"

#include "paths.h"
#include "tenant.h"

#define MIB ((uint64_t)1 << 20)
/* See account.h for the rule and its source. */
#define PAGE_BYTES (2 * MIB)
#define SMALL_MAX_BYTES (1 * MIB)
#define SMALL_STEP_BYTES ((uint64_t)512)

static uint64_t round_up(uint64_t bytes, uint64_t step) {
    return bytes / step * step + (bytes % step != 0 ? step : 0);
}

static bool is_small(uint64_t bytes) { return bytes <= SMALL_MAX_BYTES; }

/* What one more request takes of the card, in a context that holds what it holds. */
static uint64_t cost_units(const struct context *context, uint64_t bytes) {
    if (!is_small(bytes)) {
        return units_up(round_up(bytes, PAGE_BYTES));
    }
    uint64_t small = context->small_bytes + round_up(bytes, SMALL_STEP_BYTES);
    return units_up(round_up(small, PAGE_BYTES) - round_up(context->small_bytes, PAGE_BYTES));
}

static void give_back(struct process *process, const struct charge *charge) {
    struct context *context = context_by_number(process, charge->context);
    if (context == NULL) {
        return; /* went back with its context */
    }
    if (is_small(charge->bytes)) {
        context->small_bytes -= round_up(charge->bytes, SMALL_STEP_BYTES);
    }
    uint64_t units = cost_units(context, charge->bytes);
    context->charged_units -= units;
    terms_return(process, context->card, units);
}

/* The context of `seat`; one that we meet here for the first time was made by a private way, or is
 * a primary one that somebody else retained: it occupies the card already, so its charge isn't a
 * question. */
static struct context *seen_context(struct process *process, const struct seat *seat,
                                    const struct terms *terms) {
    struct context *context = context_of_seat(process, seat);
    if (context == NULL) {
        context = context_add(process, seat, terms->card);
        if (context != NULL) {
            uint64_t units = units_up(terms->context_bytes);
            context->primary = true;
            ledger_add(&process->ledger, terms->card, (int64_t)units, UINT64_MAX);
            context_charge(process, context, units);
        }
    }
    return context;
}

static CUresult charge_counted(struct process *process, const struct seat *seat,
                               const struct terms *terms, struct charge *charge) {
    struct context *context = seen_context(process, seat, terms);
    if (context == NULL || !records_reserve(&process->records, process->pending + 1)) {
        return terms_on_error(process);
    }
    if (charge->bytes > terms->share_bytes) {
        ledger_count_denial(&process->ledger, terms->card);
        return CUDA_ERROR_OUT_OF_MEMORY; /* also keeps the sums below from wrapping */
    }
    uint64_t units = cost_units(context, charge->bytes);
    CUresult result = units == 0 ? CUDA_SUCCESS : terms_charge(process, terms, units);
    if (result == CUDA_SUCCESS) {
        context->charged_units += units;
        if (is_small(charge->bytes)) {
            context->small_bytes += round_up(charge->bytes, SMALL_STEP_BYTES);
        }
        process->pending++;
        charge->context = context->number;
    }
    return result;
}

CUresult account_charge(const struct seat *seat, size_t bytes, struct charge *charge) {
    ERRNO_KEPT;
    *charge = (struct charge){.bytes = bytes};
    struct process *process = process_enter();
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    struct terms terms;
    CUresult result = terms_read(process, &seat->uuid, true, &terms);
    if (result == CUDA_SUCCESS && terms.counted) {
        result = charge_counted(process, seat, &terms, charge);
    }
    process_leave(process);
    return result;
}

void account_keep(const struct charge *charge, CUdeviceptr pointer) {
    ERRNO_KEPT;
    struct process *process = charge->context == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    process->pending--;
    if (context_by_number(process, charge->context) != NULL) {
        records_put(&process->records, (struct record){.pointer = pointer,
                                                       .bytes = charge->bytes,
                                                       .context = charge->context});
    }
    process_leave(process);
}

void account_cancel(const struct charge *charge) {
    ERRNO_KEPT;
    struct process *process = charge->context == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    process->pending--;
    give_back(process, charge);
    process_leave(process);
}

struct held account_take(CUdeviceptr pointer) {
    ERRNO_KEPT;
    struct held held = {.pointer = pointer};
    struct process *process = process_enter();
    struct record record;
    if (process == NULL) {
        return held;
    }
    if (records_take(&process->records, pointer, &record)) {
        held.charge = (struct charge){.context = record.context, .bytes = record.bytes};
        process->pending++; /* its place stays free for account_restore */
    }
    process_leave(process);
    return held;
}

void account_return(const struct held *held) { account_cancel(&held->charge); }

void account_restore(const struct held *held) { account_keep(&held->charge, held->pointer); }

CUresult account_view(const CUuuid *uuid, struct view *view) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    struct terms terms;
    CUresult result = terms_read(process, uuid, false, &terms);
    if (result == CUDA_SUCCESS) {
        uint64_t used = terms.unaccounted_bytes;
        if (terms.counted) {
            ledger_reclaim(&process->ledger, HOOK_LEDGER_PATH, terms.card);
            used += ledger_sum(&process->ledger, terms.card) * VCUDA_UNIT_BYTES;
        }
        *view = (struct view){.share_bytes = terms.share_bytes,
                              .used_bytes = used < terms.share_bytes ? used : terms.share_bytes};
    }
    process_leave(process);
    return result;
}

CUresult account_occupants(const CUuuid *uuid, struct occupant *list, unsigned *count) {
    ERRNO_KEPT;
    *count = 0;
    struct process *process = process_enter();
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    struct terms terms;
    CUresult result = terms_read(process, uuid, false, &terms);
    if (result == CUDA_SUCCESS && terms.counted) {
        ledger_reclaim(&process->ledger, HOOK_LEDGER_PATH, terms.card);
        for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
            uint64_t units = ledger_used(&process->ledger, slot, terms.card);
            if (units != 0) {
                list[*count].pid = ledger_pid(&process->ledger, slot);
                list[(*count)++].used_bytes = units * VCUDA_UNIT_BYTES;
            }
        }
    }
    process_leave(process);
    return result;
}
