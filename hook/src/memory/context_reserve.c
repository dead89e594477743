/* What a context's limits set aside: charged when they are set, where a program still expects a
 * refusal, whenever the driver then takes it. */
#include "memory/tenant.h"

_Static_assert((int)ASIDES == (int)CONTEXT_ASIDES, "a context keeps account of each");

static CUresult set_counted(struct process *process, const struct seat *seat,
                            const struct terms *terms, enum aside aside, uint64_t bytes) {
    struct context *context = context_seen(process, seat, terms);
    if (context == NULL) {
        return terms_on_error(process);
    }
    if (bytes > terms->share_bytes) {
        ledger_count_denial(&process->ledger, terms->card);
        return CUDA_ERROR_OUT_OF_MEMORY; /* also keeps the sums below from wrapping */
    }
    uint64_t units = page_units(bytes), before = context->aside_units[aside];
    CUresult result = CUDA_SUCCESS;
    if (units > before) {
        result = terms_charge(process, terms, units - before);
    } else {
        terms_return(process, context->card, before - units);
    }
    if (result == CUDA_SUCCESS) {
        context->aside_units[aside] = units;
        context->charged_units += units - before; /* wraps to a subtraction */
    }
    return result;
}

CUresult account_aside(const struct seat *seat, enum aside aside, uint64_t bytes) {
    ERRNO_KEPT;
    struct terms terms;
    struct process *process = terms_enter(&seat->uuid, true, &terms);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result =
        terms.counted ? set_counted(process, seat, &terms, aside, bytes) : CUDA_SUCCESS;
    process_leave(process);
    return result;
}
