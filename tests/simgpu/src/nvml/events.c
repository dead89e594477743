/* Event sets: XIDs that `simgpu xid` raises. An event is delivered to every set that was
 * registered for its card when it came. */
#include <stdlib.h>

#include "api.h"
#include "state/xids.h"

struct event_set {
    uint64_t seen;  /* XIDs of the shared state that were looked at */
    uint32_t cards; /* bit mask of registered cards */
};

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, types, &card);
    if (rc == NVML_SUCCESS)
        *types = NVML_EVENT_XID;
    return rc;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out) {
    nvmlReturn_t rc = session_ready();
    if (rc != NVML_SUCCESS)
        return rc;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct event_set *set = calloc(1, sizeof *set);
    if (!set)
        return NVML_ERROR_MEMORY;
    set->seen = __atomic_load_n(&session.state->xid_count, __ATOMIC_ACQUIRE);
    *out = set;
    return NVML_SUCCESS;
}

/* Other event types never come, so a mask without the XID one is refused as the real NVML refuses
 * types that a card has not. */
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, set, &card);
    if (rc == NVML_SUCCESS && (types & ~NVML_EVENT_XID))
        return NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS && types)
        set->cards |= 1u << device->card;
    return rc;
}

static bool next_event(struct event_set *set, nvmlEventData_t *data) {
    struct sim_state *state = session.state;
    bool found = false;
    sim_lock(state);
    if (state->xid_count > set->seen + SIM_XIDS_MAX)
        set->seen = state->xid_count - SIM_XIDS_MAX; /* older ones are overwritten */
    if (state->xid_count < set->seen)
        set->seen = state->xid_count; /* the state was reset */
    while (!found && set->seen < state->xid_count) {
        const struct sim_xid *xid = &state->xids[set->seen++ % SIM_XIDS_MAX];
        found = set->cards & 1u << xid->card;
        if (found)
            *data = (nvmlEventData_t){&session.devices[xid->card], NVML_EVENT_XID, xid->xid,
                                      NVML_NO_INSTANCE, NVML_NO_INSTANCE};
    }
    sim_unlock(state);
    return found;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms) {
    nvmlReturn_t rc = session_ready();
    if (rc != NVML_SUCCESS)
        return rc;
    if (!set || !data)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t end_ns = sim_now_ns() + timeout_ms * 1000000ULL;
    while (!next_event(set, data)) {
        uint64_t now_ns = sim_now_ns();
        if (now_ns >= end_ns)
            return NVML_ERROR_TIMEOUT;
        sim_xid_wait(session.state, set->seen, (unsigned)((end_ns - now_ns + 999999) / 1000000));
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned timeout_ms) {
    nvmlEventData_t full;
    if (!data)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = nvmlEventSetWait_v2(set, &full, timeout_ms);
    if (rc == NVML_SUCCESS)
        *data = (nvmlEventData_v1_t){full.device, full.eventType, full.eventData};
    return rc;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    free(set);
    return NVML_SUCCESS;
}
