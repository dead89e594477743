/* A test's control of the fake NVML: two cards with a neighbour's work. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include "loader/drivers.h"

enum { FAKE_NEIGHBOUR_PID = 4242, FAKE_GPU_PERCENT = 90, FAKE_MEMORY_PERCENT = 40 };

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode);
nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int milliwatts);
nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, unsigned int counter);
nvmlReturn_t nvmlDeviceResetNvLinkErrorCounters(nvmlDevice_t device, unsigned int link);
nvmlReturn_t nvmlGpuInstanceDestroy(void *instance);
nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device);

unsigned fake_nvml_changes(void);         /* calls that changed a card */
void fake_nvml_answer(nvmlReturn_t code); /* of every call from now on; NVML_SUCCESS: as usual */

#endif
