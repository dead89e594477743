#include "memory/card_limits.h"

#include <string.h>

#include "shared/paths.h"

#define PAGE_BYTES ((uint64_t)2 << 20)

uint64_t units_up(uint64_t bytes) {
    return bytes / VCUDA_UNIT_BYTES + (bytes % VCUDA_UNIT_BYTES != 0);
}

uint64_t page_units(uint64_t bytes) {
    return (bytes / PAGE_BYTES + (bytes % PAGE_BYTES != 0)) * (PAGE_BYTES / VCUDA_UNIT_BYTES);
}

const struct vcuda_device_limit *card_limits_of(const struct process *process, const CUuuid *uuid) {
    const struct vcuda_limits_body *body = &process->limits.body.limits;
    for (uint32_t i = 0; i < body->device_count && i < VCUDA_MAX_CARDS; i++) {
        if (memcmp(body->devices[i].uuid, uuid->bytes, VCUDA_UUID_BYTES) == 0) {
            return &body->devices[i];
        }
    }
    return NULL;
}

const struct vcuda_card_activity *card_limits_activity(const struct process *process,
                                                       const CUuuid *uuid) {
    const struct vcuda_activity_body *body = &process->activity.body.activity;
    uint32_t count = process->activity.valid ? body->card_count : 0;
    for (uint32_t i = 0; i < count && i < VCUDA_MAX_CARDS; i++) {
        if (memcmp(body->cards[i].uuid, uuid->bytes, VCUDA_UUID_BYTES) == 0) {
            return &body->cards[i];
        }
    }
    return NULL;
}

/* The last valid page counts at any age: memory stays when the agent is gone. */
static uint64_t find_unaccounted(const struct process *process, const CUuuid *uuid) {
    const struct vcuda_card_activity *activity = card_limits_activity(process, uuid);
    return activity == NULL ? 0 : activity->unaccounted_bytes;
}

CUresult card_limits_on_error(const struct process *process) {
    return process->limits.body.limits.on_error == VCUDA_ON_ERROR_OPEN ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_NOT_PERMITTED;
}

CUresult card_limits_read(struct process *process, const CUuuid *uuid, bool own,
                          struct card_limits *limits) {
    *limits = (struct card_limits){.card = LEDGER_NO_CARD};
    if (!shared_page_refresh(&process->limits, HOOK_LIMITS_PATH, VCUDA_LIMITS_MAGIC)) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    const struct vcuda_device_limit *limit = card_limits_of(process, uuid);
    if (limit == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    shared_page_refresh(&process->activity, HOOK_ACTIVITY_PATH, VCUDA_ACTIVITY_MAGIC);
    limits->share_bytes = limit->memory_bytes;
    limits->context_bytes = limit->context_bytes;
    limits->unaccounted_bytes = find_unaccounted(process, uuid);
    if (ledger_open(&process->ledger, HOOK_LEDGER_PATH, own)) {
        ledger_note_pages(&process->ledger, process->limits.generation,
                          process->activity.generation);
        limits->card = ledger_card(&process->ledger, uuid->bytes);
    }
    limits->counted = limits->card != LEDGER_NO_CARD;
    return limits->counted ? CUDA_SUCCESS : card_limits_on_error(process);
}

struct process *card_limits_enter(const CUuuid *uuid, bool own, struct card_limits *limits) {
    struct process *process = process_enter();
    if (process != NULL && card_limits_read(process, uuid, own, limits) != CUDA_SUCCESS) {
        process_leave(process);
        return NULL;
    }
    return process;
}

CUresult card_limits_charge(struct process *process, const struct card_limits *limits,
                            uint64_t units) {
    uint64_t limit = 0;
    if (limits->unaccounted_bytes < limits->share_bytes) {
        limit = (limits->share_bytes - limits->unaccounted_bytes) / VCUDA_UNIT_BYTES;
    }
    if (units <= limit) {
        struct ledger *ledger = &process->ledger;
        if (ledger_add(ledger, limits->card, (int64_t)units, limit)) {
            return CUDA_SUCCESS;
        }
        ledger_reclaim(ledger, HOOK_LEDGER_PATH, limits->card);
        if (ledger_add(ledger, limits->card, (int64_t)units, limit)) {
            return CUDA_SUCCESS;
        }
    }
    ledger_count_denial(&process->ledger, limits->card);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void card_limits_return(struct process *process, int card, uint64_t units) {
    if (units != 0) {
        ledger_open(&process->ledger, HOOK_LEDGER_PATH, true);
        ledger_add(&process->ledger, card, -(int64_t)units, 0);
    }
}
