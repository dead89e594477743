#include "hooks/nvml/hooks_nvml_processes.h"

#include "hooks/nvml/hooks_nvml.h"
#include "memory/account.h"

#include "vcuda_layout.h"

enum which { OWN, NONE };

/* NVML's rule for lists: `room` entries are there; with fewer than needed only the count is set. */
static nvmlReturn_t list_of(struct driver *driver, nvmlDevice_t device, enum which which,
                            unsigned int *count, const void *room, struct process_usage *list) {
    CUuuid uuid;
    unsigned found = 0;
    nvmlReturn_t result = nvml_uuid(driver, device, &uuid);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (count == NULL || (*count != 0 && room == NULL)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (account_processes(&uuid, list, &found) != CUDA_SUCCESS) {
        return NVML_ERROR_NO_PERMISSION;
    }
    found = which == OWN ? found : 0;
    bool fits = found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

static nvmlReturn_t list_v1(struct driver *driver, nvmlDeviceGetComputeRunningProcesses_fn *ask,
                            nvmlDevice_t device, enum which which, unsigned int *count,
                            nvmlProcessInfo_v1_t *processes) {
    struct process_usage list[VCUDA_LEDGER_SLOTS];
    unsigned int none = 0;
    nvmlReturn_t result = nvml_refusal(ask(device, &none, NULL));
    if (result == NVML_SUCCESS) {
        result = list_of(driver, device, which, count, processes, list);
    }
    for (unsigned i = 0; result == NVML_SUCCESS && i < *count; i++) {
        processes[i] =
            (nvmlProcessInfo_v1_t){.pid = list[i].pid, .usedGpuMemory = list[i].used_bytes};
    }
    return result;
}

/* A whole card has no instance: NVML tells that with all bits set. */
static nvmlReturn_t list_v2(struct driver *driver, nvmlDeviceGetComputeRunningProcesses_v2_fn *ask,
                            nvmlDevice_t device, enum which which, unsigned int *count,
                            nvmlProcessInfo_v2_t *processes) {
    struct process_usage list[VCUDA_LEDGER_SLOTS];
    unsigned int none = 0;
    nvmlReturn_t result = nvml_refusal(ask(device, &none, NULL));
    if (result == NVML_SUCCESS) {
        result = list_of(driver, device, which, count, processes, list);
    }
    for (unsigned i = 0; result == NVML_SUCCESS && i < *count; i++) {
        processes[i] = (nvmlProcessInfo_v2_t){.pid = list[i].pid,
                                              .usedGpuMemory = list[i].used_bytes,
                                              .gpuInstanceId = UINT32_MAX,
                                              .computeInstanceId = UINT32_MAX};
    }
    return result;
}

nvmlReturn_t gate_nvmlDeviceGetComputeRunningProcesses(struct driver *driver, nvmlDevice_t device,
                                                       unsigned int *count,
                                                       nvmlProcessInfo_v1_t *processes) {
    return list_v1(driver, REAL(driver, nvmlDeviceGetComputeRunningProcesses), device, OWN, count,
                   processes);
}

nvmlReturn_t gate_nvmlDeviceGetComputeRunningProcesses_v2(struct driver *driver,
                                                          nvmlDevice_t device, unsigned int *count,
                                                          nvmlProcessInfo_v2_t *processes) {
    return list_v2(driver, REAL(driver, nvmlDeviceGetComputeRunningProcesses_v2), device, OWN,
                   count, processes);
}

nvmlReturn_t gate_nvmlDeviceGetComputeRunningProcesses_v3(struct driver *driver,
                                                          nvmlDevice_t device, unsigned int *count,
                                                          nvmlProcessInfo_v2_t *processes) {
    return list_v2(driver, REAL(driver, nvmlDeviceGetComputeRunningProcesses_v3), device, OWN,
                   count, processes);
}

nvmlReturn_t gate_nvmlDeviceGetGraphicsRunningProcesses(struct driver *driver, nvmlDevice_t device,
                                                        unsigned int *count,
                                                        nvmlProcessInfo_v1_t *processes) {
    return list_v1(driver, REAL(driver, nvmlDeviceGetGraphicsRunningProcesses), device, NONE, count,
                   processes);
}

nvmlReturn_t gate_nvmlDeviceGetGraphicsRunningProcesses_v2(struct driver *driver,
                                                           nvmlDevice_t device, unsigned int *count,
                                                           nvmlProcessInfo_v2_t *processes) {
    return list_v2(driver, REAL(driver, nvmlDeviceGetGraphicsRunningProcesses_v2), device, NONE,
                   count, processes);
}

nvmlReturn_t gate_nvmlDeviceGetGraphicsRunningProcesses_v3(struct driver *driver,
                                                           nvmlDevice_t device, unsigned int *count,
                                                           nvmlProcessInfo_v2_t *processes) {
    return list_v2(driver, REAL(driver, nvmlDeviceGetGraphicsRunningProcesses_v3), device, NONE,
                   count, processes);
}

nvmlReturn_t gate_nvmlDeviceGetMPSComputeRunningProcesses(struct driver *driver,
                                                          nvmlDevice_t device, unsigned int *count,
                                                          nvmlProcessInfo_v1_t *processes) {
    return list_v1(driver, REAL(driver, nvmlDeviceGetMPSComputeRunningProcesses), device, NONE,
                   count, processes);
}

nvmlReturn_t gate_nvmlDeviceGetMPSComputeRunningProcesses_v2(struct driver *driver,
                                                             nvmlDevice_t device,
                                                             unsigned int *count,
                                                             nvmlProcessInfo_v2_t *processes) {
    return list_v2(driver, REAL(driver, nvmlDeviceGetMPSComputeRunningProcesses_v2), device, NONE,
                   count, processes);
}

nvmlReturn_t gate_nvmlDeviceGetMPSComputeRunningProcesses_v3(struct driver *driver,
                                                             nvmlDevice_t device,
                                                             unsigned int *count,
                                                             nvmlProcessInfo_v2_t *processes) {
    return list_v2(driver, REAL(driver, nvmlDeviceGetMPSComputeRunningProcesses_v3), device, NONE,
                   count, processes);
}

static nvmlReturn_t fill_details(struct driver *driver, nvmlDevice_t device,
                                 nvmlProcessDetailList_v1_t *list) {
    struct process_usage processes[VCUDA_LEDGER_SLOTS];
    bool shown = list->mode == NVML_PROCESS_MODE_COMPUTE || list->mode == NVML_PROCESS_MODE_ALL;
    nvmlReturn_t result = list_of(driver, device, shown ? OWN : NONE, &list->numProcArrayEntries,
                                  list->procArray, processes);
    for (unsigned i = 0; result == NVML_SUCCESS && i < list->numProcArrayEntries; i++) {
        list->procArray[i] = (nvmlProcessDetail_v1_t){.pid = processes[i].pid,
                                                      .usedGpuMemory = processes[i].used_bytes,
                                                      .gpuInstanceId = UINT32_MAX,
                                                      .computeInstanceId = UINT32_MAX};
    }
    return result;
}

nvmlReturn_t gate_nvmlDeviceGetRunningProcessDetailList(struct driver *driver, nvmlDevice_t device,
                                                        nvmlProcessDetailList_v1_t *list) {
    union {
        nvmlProcessDetailList_v1_t list;
        unsigned char room[NVML_STRUCT_ROOM];
    } question = {.room = {0}};
    nvmlReturn_t asked = nvml_check_struct(driver, device, list == NULL ? NULL : &list->version);
    if (asked != NVML_SUCCESS) {
        return asked;
    }
    question.list.version = list->version;
    question.list.mode = list->mode;
    asked =
        nvml_refusal(REAL(driver, nvmlDeviceGetRunningProcessDetailList)(device, &question.list));
    if (asked == NVML_SUCCESS && list->version != NVML_VERSION_1(*list)) {
        asked = NVML_ERROR_ARGUMENT_VERSION_MISMATCH; /* known to the driver, not to the hook */
    }
    return asked == NVML_SUCCESS ? fill_details(driver, device, list) : asked;
}

/* Sessions of the video engines, and the driver's accounting of processes that have ended: a
 * container can't tell its own from its neighbours', so the list is empty. `refusal` is the
 * driver's. */
static nvmlReturn_t list_none(struct driver *driver, nvmlDevice_t device, nvmlReturn_t refusal,
                              unsigned int *count, const void *room) {
    struct process_usage ignored[VCUDA_LEDGER_SLOTS];
    return refusal == NVML_SUCCESS ? list_of(driver, device, NONE, count, room, ignored) : refusal;
}

nvmlReturn_t gate_nvmlDeviceGetEncoderSessions(struct driver *driver, nvmlDevice_t device,
                                               unsigned int *count,
                                               nvmlEncoderSessionInfo_t *entries) {
    unsigned int none = 0;
    nvmlReturn_t refusal =
        nvml_refusal(REAL(driver, nvmlDeviceGetEncoderSessions)(device, &none, NULL));
    return list_none(driver, device, refusal, count, entries);
}

nvmlReturn_t gate_nvmlDeviceGetFBCSessions(struct driver *driver, nvmlDevice_t device,
                                           unsigned int *count, nvmlFBCSessionInfo_t *entries) {
    unsigned int none = 0;
    nvmlReturn_t refusal =
        nvml_refusal(REAL(driver, nvmlDeviceGetFBCSessions)(device, &none, NULL));
    return list_none(driver, device, refusal, count, entries);
}

nvmlReturn_t gate_nvmlDeviceGetAccountingPids(struct driver *driver, nvmlDevice_t device,
                                              unsigned int *count, unsigned int *entries) {
    unsigned int none = 0;
    nvmlReturn_t refusal =
        nvml_refusal(REAL(driver, nvmlDeviceGetAccountingPids)(device, &none, NULL));
    return list_none(driver, device, refusal, count, entries);
}

static nvmlReturn_t no_stats(struct driver *driver, nvmlDevice_t device) {
    CUuuid uuid;
    nvmlReturn_t result = nvml_uuid(driver, device, &uuid);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : result;
}

nvmlReturn_t gate_nvmlDeviceGetAccountingStats(struct driver *driver, nvmlDevice_t device,
                                               unsigned int pid, nvmlAccountingStats_t *stats) {
    (void)pid, (void)stats;
    return no_stats(driver, device);
}

nvmlReturn_t gate_nvmlDeviceGetAccountingStats_v2(struct driver *driver, nvmlDevice_t device,
                                                  nvmlAccountingStats_v2_t *stats) {
    (void)stats;
    return no_stats(driver, device);
}
