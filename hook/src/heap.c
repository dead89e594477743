/* The heap of device-side malloc. The driver takes it whole when it is first needed; it is charged
 * when its size is set, where a program still expects a refusal. */
#include "tenant.h"

/* CUDA C++ Programming Guide, "Heap Memory Allocation": 8 MB unless told otherwise. */
#define DEFAULT_BYTES ((uint64_t)8 << 20)

static uint64_t units_beyond_default(uint64_t bytes) {
    return bytes > DEFAULT_BYTES ? page_units(bytes - DEFAULT_BYTES) : 0;
}

static CUresult set_counted(struct process *process, const struct seat *seat,
                            const struct terms *terms, uint64_t bytes) {
    struct context *context = context_seen(process, seat, terms);
    if (context == NULL) {
        return terms_on_error(process);
    }
    if (bytes > terms->share_bytes && bytes > DEFAULT_BYTES) {
        ledger_count_denial(&process->ledger, terms->card);
        return CUDA_ERROR_OUT_OF_MEMORY; /* also keeps the sums below from wrapping */
    }
    uint64_t units = units_beyond_default(bytes), before = context->heap_units;
    CUresult result = CUDA_SUCCESS;
    if (units > before) {
        result = terms_charge(process, terms, units - before);
    } else {
        terms_return(process, context->card, before - units);
    }
    if (result == CUDA_SUCCESS) {
        context->heap_units = units;
        context->charged_units += units - before; /* wraps to a subtraction */
    }
    return result;
}

CUresult account_heap(const struct seat *seat, uint64_t bytes) {
    ERRNO_KEPT;
    struct terms terms;
    struct process *process = terms_enter(&seat->uuid, true, &terms);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = terms.counted ? set_counted(process, seat, &terms, bytes) : CUDA_SUCCESS;
    process_leave(process);
    return result;
}
