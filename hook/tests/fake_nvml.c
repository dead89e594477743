/* A libnvidia-ml.so.1 of two cards that says of each: 4 GiB, all of it free but 512 MiB reserved.
 */
#include <stdio.h>

#include "drivers.h"
#include "fake.h"

static char devices[FAKE_CARDS];

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    *device = (nvmlDevice_t)(void *)&devices[index];
    return NVML_SUCCESS;
}

nvmlDeviceGetUUID_fn nvmlDeviceGetUUID;
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    long index = (char *)device - devices;
    snprintf(uuid, length, "GPU-00000000-0000-0000-0000-0000000000%02lx",
             FAKE_FIRST_UUID_BYTE + index);
    return NVML_SUCCESS;
}

/* A neighbour's process, which no tenant may see. */
nvmlDeviceGetComputeRunningProcesses_v3_fn nvmlDeviceGetComputeRunningProcesses_v3;
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_v2_t *processes) {
    (void)device;
    *count = 1;
    processes[0].pid = 4242;
    return NVML_SUCCESS;
}

nvmlDeviceGetMemoryInfo_fn nvmlDeviceGetMemoryInfo;
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    (void)device;
    *memory = (nvmlMemory_t){.total = FAKE_CARD_BYTES, .free = FAKE_CARD_BYTES};
    return NVML_SUCCESS;
}

nvmlDeviceGetMemoryInfo_v2_fn nvmlDeviceGetMemoryInfo_v2;
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    (void)device;
    *memory = (nvmlMemory_v2_t){.version = memory->version,
                                .total = FAKE_CARD_BYTES,
                                .reserved = UINT64_C(512) << 20,
                                .free = FAKE_CARD_BYTES - (UINT64_C(512) << 20)};
    return NVML_SUCCESS;
}
