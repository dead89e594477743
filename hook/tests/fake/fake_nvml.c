/* A libnvidia-ml.so.1 of two cards, each with 4 GiB, all of it free but 512 MiB reserved; and with
 * a neighbour's process, which no tenant may see. */
#include "fake_nvml.h"

#include <stdio.h>

#include "fake.h"

static char devices[FAKE_CARDS];
static nvmlReturn_t answer;
static unsigned changes;

unsigned fake_nvml_changes(void) { return changes; }
void fake_nvml_answer(nvmlReturn_t code) { answer = code; }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    *device = (nvmlDevice_t)(void *)&devices[index];
    return answer;
}

nvmlDeviceGetCount_v2_fn nvmlDeviceGetCount_v2;
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = FAKE_CARDS;
    return answer;
}

nvmlDeviceGetUUID_fn nvmlDeviceGetUUID;
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    long index = (char *)device - devices;
    if (index < 0 || index >= FAKE_CARDS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    snprintf(uuid, length, "GPU-00000000-0000-0000-0000-0000000000%02lx",
             FAKE_FIRST_UUID_BYTE + index);
    return answer;
}

nvmlDeviceGetMemoryInfo_fn nvmlDeviceGetMemoryInfo;
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    (void)device;
    *memory = (nvmlMemory_t){.total = FAKE_CARD_BYTES, .free = FAKE_CARD_BYTES};
    return answer;
}

nvmlDeviceGetMemoryInfo_v2_fn nvmlDeviceGetMemoryInfo_v2;
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    (void)device;
    if (memory->version != ((unsigned)sizeof *memory | 2u << 24)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    *memory = (nvmlMemory_v2_t){.version = memory->version,
                                .total = FAKE_CARD_BYTES,
                                .reserved = UINT64_C(512) << 20,
                                .free = FAKE_CARD_BYTES - (UINT64_C(512) << 20)};
    return answer;
}

nvmlDeviceGetUtilizationRates_fn nvmlDeviceGetUtilizationRates;
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    (void)device;
    if (rates == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *rates = (nvmlUtilization_t){.gpu = FAKE_GPU_PERCENT, .memory = FAKE_MEMORY_PERCENT};
    return answer;
}

/* Room for one entry is asked for. */
static nvmlReturn_t one_entry(unsigned int *count) {
    bool fits = *count >= 1;
    *count = 1;
    return answer != NVML_SUCCESS ? answer : fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

#define LIST(name, type, ...)                                                                      \
    name##_fn name;                                                                                \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, type *entries) {                   \
        (void)device;                                                                              \
        nvmlReturn_t result = one_entry(count);                                                    \
        if (result == NVML_SUCCESS) {                                                              \
            entries[0] = (type)__VA_ARGS__;                                                        \
        }                                                                                          \
        return result;                                                                             \
    }
#define LISTS(name)                                                                                \
    LIST(name, nvmlProcessInfo_v1_t, {.pid = FAKE_NEIGHBOUR_PID})                                  \
    LIST(name##_v2, nvmlProcessInfo_v2_t, {.pid = FAKE_NEIGHBOUR_PID})                             \
    LIST(name##_v3, nvmlProcessInfo_v2_t, {.pid = FAKE_NEIGHBOUR_PID})

LISTS(nvmlDeviceGetComputeRunningProcesses)
LISTS(nvmlDeviceGetGraphicsRunningProcesses)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses)
LIST(nvmlDeviceGetAccountingPids, unsigned int, FAKE_NEIGHBOUR_PID)

#define SESSIONS(name, type)                                                                       \
    name##_fn name;                                                                                \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, type *entries) {                   \
        (void)device, (void)entries;                                                               \
        return one_entry(count);                                                                   \
    }
SESSIONS(nvmlDeviceGetEncoderSessions, nvmlEncoderSessionInfo_t)
SESSIONS(nvmlDeviceGetFBCSessions, nvmlFBCSessionInfo_t)

nvmlDeviceGetAccountingStats_fn nvmlDeviceGetAccountingStats;
nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid,
                                          nvmlAccountingStats_t *stats) {
    (void)device, (void)pid, (void)stats;
    return answer;
}

nvmlDeviceGetRunningProcessDetailList_fn nvmlDeviceGetRunningProcessDetailList;
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                   nvmlProcessDetailList_v1_t *list) {
    (void)device;
    if (list->version != NVML_VERSION_1(*list) && list->version != (sizeof *list | 2u << 24)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (list->mode > NVML_PROCESS_MODE_ALL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    nvmlReturn_t result = one_entry(&list->numProcArrayEntries);
    if (result == NVML_SUCCESS) {
        list->procArray[0] = (nvmlProcessDetail_v1_t){.pid = FAKE_NEIGHBOUR_PID};
    }
    return result;
}

nvmlDeviceGetProcessUtilization_fn nvmlDeviceGetProcessUtilization;
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long since_us) {
    (void)device, (void)since_us;
    nvmlReturn_t result = one_entry(count);
    if (result == NVML_SUCCESS) {
        samples[0] =
            (nvmlProcessUtilizationSample_t){.pid = FAKE_NEIGHBOUR_PID, .smUtil = FAKE_GPU_PERCENT};
    }
    return result;
}

nvmlDeviceGetProcessesUtilizationInfo_fn nvmlDeviceGetProcessesUtilizationInfo;
nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   nvmlProcessesUtilizationInfo_v1_t *info) {
    (void)device;
    return info->version == NVML_VERSION_1(*info) ? one_entry(&info->processSamplesCount)
                                                  : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

static nvmlReturn_t change(void) {
    changes++;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode) {
    (void)device, (void)mode;
    return change();
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int milliwatts) {
    (void)device, (void)milliwatts;
    return change();
}

nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, unsigned int counter) {
    (void)device, (void)counter;
    return change();
}

nvmlReturn_t nvmlDeviceResetNvLinkErrorCounters(nvmlDevice_t device, unsigned int link) {
    (void)device, (void)link;
    return change();
}

nvmlReturn_t nvmlGpuInstanceDestroy(void *instance) {
    (void)instance;
    return change();
}

/* This is about the calling thread, and not about a card. */
nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device) {
    (void)device;
    return NVML_SUCCESS;
}
