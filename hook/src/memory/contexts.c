#include "memory/contexts.h"

struct context *context_by_number(struct process *process, uint32_t number) {
    for (unsigned i = 0; number != 0 && i < MAX_CONTEXTS; i++) {
        if (process->contexts[i].number == number) {
            return &process->contexts[i];
        }
    }
    return NULL;
}

struct context *context_find(struct process *process, const struct current_context *current) {
    for (unsigned i = 0; i < MAX_CONTEXTS; i++) {
        struct context *context = &process->contexts[i];
        if (context->number == 0 || context->driver != current->driver) {
            continue;
        }
        if (current->handle == NULL ? context->primary && context->device == current->device
                                    : context->handle == current->handle) {
            return context;
        }
    }
    return NULL;
}

struct context *context_add(struct process *process, const struct current_context *current,
                            int card) {
    for (unsigned i = 0; i < MAX_CONTEXTS; i++) {
        struct context *context = &process->contexts[i];
        if (context->number == 0) {
            *context = (struct context){.number = ++process->last_number,
                                        .card = card,
                                        .driver = current->driver,
                                        .handle = current->handle,
                                        .device = current->device};
            return context;
        }
    }
    return NULL;
}

void context_charge(struct process *process, struct context *context, uint64_t units) {
    context->charged_units += units;
    ledger_count_contexts(&process->ledger, context->card, 1);
}

/* The context was made by an unknown call, or is a primary one that a library retained: it occupies
 * the card already, so it is charged even beyond the share. */
struct context *context_seen(struct process *process, const struct current_context *current,
                             const struct card_limits *limits) {
    struct context *context = context_find(process, current);
    struct current_context primary = {.driver = current->driver, .device = current->device};
    if (context == NULL) {
        bool has_primary = context_find(process, &primary) != NULL;
        context = context_add(process, current, limits->card);
        if (context != NULL) {
            uint64_t units = units_up(limits->context_bytes);
            context->primary = !has_primary;
            ledger_add(&process->ledger, limits->card, (int64_t)units, UINT64_MAX);
            context_charge(process, context, units);
        }
    }
    return context;
}

void context_remove(struct process *process, struct context *context) {
    card_limits_return(process, context->card, context->charged_units);
    ledger_count_contexts(&process->ledger, context->card, -1);
    allocation_table_drop_context(&process->allocations, context->number);
    context->number = 0;
}

static CUresult charge_unmade(struct process *process, const struct current_context *unmade,
                              bool primary, uint32_t *number) {
    struct card_limits limits;
    CUresult result = card_limits_read(process, &unmade->uuid, true, &limits);
    if (result != CUDA_SUCCESS || !limits.counted) {
        return result;
    }
    struct context *context = context_add(process, unmade, limits.card);
    if (context == NULL) {
        return card_limits_on_error(process);
    }
    uint64_t units = units_up(limits.context_bytes);
    result = card_limits_charge(process, &limits, units);
    if (result == CUDA_SUCCESS) {
        context_charge(process, context, units);
        context->primary = primary;
        *number = context->number;
    } else {
        context->number = 0;
    }
    return result;
}

CUresult context_charge_new(const struct current_context *unmade, bool primary, uint32_t *number) {
    *number = 0;
    struct process *process = process_enter();
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = CUDA_SUCCESS;
    const struct context *known = primary ? context_find(process, unmade) : NULL;
    if (known != NULL) {
        *number = known->number;
    } else {
        result = charge_unmade(process, unmade, primary, number);
    }
    process_leave(process);
    return result;
}

/* The record of a context that was just made. Where another thread's use of it was charged, that
 * record stays, with its allocations; it is newer than the call's own. An older one with the handle
 * is of a context that has ended, of which its thread hasn't told yet. */
static struct context *settled(struct process *process, struct context *own, struct context *found,
                               CUcontext handle) {
    if (found != NULL && (own->primary || found->number > own->number)) {
        found->primary = found->primary || own->primary;
        context_remove(process, own);
        return found;
    }
    if (found != NULL) {
        context_remove(process, found);
    }
    own->handle = handle;
    return own;
}

void context_keep(uint32_t number, const struct current_context *made) {
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    struct card_limits limits;
    struct context *own = context_by_number(process, number);
    struct context *found = made->handle == NULL ? NULL : context_find(process, made);
    if (own != NULL && own->handle == NULL) {
        found = settled(process, own, found, made->handle);
    } else if (found == NULL && made->handle != NULL &&
               card_limits_read(process, &made->uuid, true, &limits) == CUDA_SUCCESS &&
               limits.counted) {
        found = context_seen(process, made, &limits); /* the one before has ended meanwhile */
    }
    if (found != NULL) {
        found->retains++;
    }
    process_leave(process);
}

void context_cancel(uint32_t number) {
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    struct context *context = context_by_number(process, number);
    if (context != NULL && context->handle == NULL) {
        context_remove(process, context);
    }
    process_leave(process);
}

uint32_t context_number(const struct current_context *current) {
    struct process *process = process_enter();
    if (process == NULL) {
        return 0;
    }
    struct context *context = context_find(process, current);
    uint32_t number = context == NULL ? 0 : context->number;
    process_leave(process);
    return number;
}

uint32_t context_retains(uint32_t number) {
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return 0;
    }
    const struct context *context = context_by_number(process, number);
    uint32_t retains = context == NULL ? 0 : context->retains;
    process_leave(process);
    return retains;
}

void context_drop(uint32_t number, uint32_t retains) {
    struct process *process = number == 0 ? NULL : process_enter();
    if (process == NULL) {
        return;
    }
    struct context *context = context_by_number(process, number);
    if (context != NULL && context->retains == retains) {
        context_remove(process, context);
    }
    process_leave(process);
}

CUresult context_charge_if_new(const struct current_context *current) {
    struct card_limits limits;
    struct process *process = card_limits_enter(&current->uuid, true, &limits);
    if (process == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = CUDA_SUCCESS;
    if (limits.counted && context_seen(process, current, &limits) == NULL) {
        result = card_limits_on_error(process);
    }
    process_leave(process);
    return result;
}

bool context_device(uint32_t number, CUdevice *device) {
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
