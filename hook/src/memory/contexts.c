#include "memory/tenant.h"
#include "shared/paths.h"

struct context *context_by_number(struct process *process, uint32_t number) {
    for (unsigned i = 0; number != 0 && i < MAX_CONTEXTS; i++) {
        if (process->contexts[i].number == number) {
            return &process->contexts[i];
        }
    }
    return NULL;
}

struct context *context_of_seat(struct process *process, const struct seat *seat) {
    for (unsigned i = 0; i < MAX_CONTEXTS; i++) {
        struct context *context = &process->contexts[i];
        if (context->number == 0 || context->handle == NULL || context->driver != seat->driver) {
            continue;
        }
        if (seat->handle == NULL ? context->primary && context->device == seat->device
                                 : context->handle == seat->handle) {
            return context;
        }
    }
    return NULL;
}

struct context *context_add(struct process *process, const struct seat *seat, int card) {
    for (unsigned i = 0; i < MAX_CONTEXTS; i++) {
        struct context *context = &process->contexts[i];
        if (context->number == 0) {
            *context = (struct context){.number = ++process->last_number,
                                        .card = card,
                                        .driver = seat->driver,
                                        .handle = seat->handle,
                                        .device = seat->device};
            return context;
        }
    }
    return NULL;
}

void context_charge(struct process *process, struct context *context, uint64_t units) {
    context->charged_units += units;
    ledger_count_contexts(&process->ledger, context->card, 1);
}

/* It was made by a private way, or is a primary one that somebody else retained: it occupies the
 * card already, so its charge isn't a question. */
struct context *context_seen(struct process *process, const struct seat *seat,
                             const struct terms *terms) {
    struct context *context = context_of_seat(process, seat);
    struct seat primary = {.driver = seat->driver, .device = seat->device};
    if (context == NULL) {
        bool has_primary = context_of_seat(process, &primary) != NULL;
        context = context_add(process, seat, terms->card);
        if (context != NULL) {
            uint64_t units = units_up(terms->context_bytes);
            context->primary = !has_primary;
            ledger_add(&process->ledger, terms->card, (int64_t)units, UINT64_MAX);
            context_charge(process, context, units);
        }
    }
    return context;
}

void context_remove(struct process *process, struct context *context) {
    terms_return(process, context->card, context->charged_units);
    ledger_count_contexts(&process->ledger, context->card, -1);
    records_drop_context(&process->records, context->number);
    context->number = 0;
}

CUresult account_charge_context(const struct seat *seat, uint32_t *number) {
    ERRNO_KEPT;
    *number = 0;
    struct terms terms;
    struct process *process = terms_enter(&seat->uuid, true, &terms);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = CUDA_SUCCESS;
    if (terms.counted) {
        struct seat unmade = *seat;
        unmade.handle = NULL;
        struct context *context = context_add(process, &unmade, terms.card);
        uint64_t units = units_up(terms.context_bytes);
        result = context == NULL ? terms_on_error(process) : terms_charge(process, &terms, units);
        if (context != NULL && result == CUDA_SUCCESS) {
            context_charge(process, context, units);
            *number = context->number;
        } else if (context != NULL) {
            context->number = 0;
        }
    }
    process_leave(process);
    return result;
}

void account_context_keep(uint32_t number, CUcontext handle, bool primary) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    struct context *context = context_by_number(process, number);
    if (context != NULL) {
        struct seat seat = {.driver = context->driver, .handle = handle};
        if (context_of_seat(process, &seat) != NULL) {
            context_remove(process, context);
        } else {
            context->handle = handle;
            context->primary = primary;
        }
    }
    process_leave(process);
}

uint32_t account_context(const struct seat *seat) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return 0;
    }
    struct context *context = context_of_seat(process, seat);
    uint32_t number = context == NULL ? 0 : context->number;
    process_leave(process);
    return number;
}

void account_context_drop(uint32_t number) {
    ERRNO_KEPT;
    struct process *process = process_enter();
    if (process == NULL) {
        return;
    }
    struct context *context = context_by_number(process, number);
    if (context != NULL) {
        context_remove(process, context);
    }
    process_leave(process);
}

CUresult account_context_seen(const struct seat *seat) {
    ERRNO_KEPT;
    struct terms terms;
    struct process *process = terms_enter(&seat->uuid, true, &terms);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = CUDA_SUCCESS;
    if (terms.counted && context_seen(process, seat, &terms) == NULL) {
        result = terms_on_error(process);
    }
    process_leave(process);
    return result;
}

bool account_context_device(uint32_t number, CUdevice *device) {
    ERRNO_KEPT;
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return false;
    }
    const struct context *context = context_by_number(process, number);
    if (context != NULL) {
        *device = context->device;
    }
    process_leave(process);
    return context != NULL;
}
