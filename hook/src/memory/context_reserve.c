#include "memory/context_reserve.h"

#include "memory/contexts.h"

static CUresult set_counted(struct process *process, const struct current_context *current,
                            const struct card_limits *limits, enum context_reserve reserve,
                            uint64_t bytes) {
    struct context *context = context_seen(process, current, limits);
    if (context == NULL) {
        return card_limits_on_error(process);
    }
    if (bytes > limits->share_bytes) {
        ledger_count_denial(&process->ledger, limits->card);
        return CUDA_ERROR_OUT_OF_MEMORY; /* also keeps the sums below from wrapping */
    }
    uint64_t units = page_units(bytes), before = context->reserve_units[reserve];
    CUresult result = CUDA_SUCCESS;
    if (units > before) {
        result = card_limits_charge(process, limits, units - before);
    } else {
        card_limits_return(process, context->card, before - units);
    }
    if (result == CUDA_SUCCESS) {
        context->reserve_units[reserve] = units;
        context->charged_units += units - before; /* wraps to a subtraction */
    }
    return result;
}

CUresult context_reserve_set(const struct current_context *current, enum context_reserve reserve,
                             uint64_t bytes) {
    struct card_limits limits;
    struct process *process = card_limits_enter(&current->uuid, true, &limits);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result =
        limits.counted ? set_counted(process, current, &limits, reserve, bytes) : CUDA_SUCCESS;
    process_leave(process);
    return result;
}
