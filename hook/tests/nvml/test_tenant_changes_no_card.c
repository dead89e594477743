/* A call that changes a card is refused and never reaches the driver; a call about the thread
 * itself passes. */
#include <dlfcn.h>

#include "asking_nvml.h"

int main(void) {
    nvmlDevice_t device = nvml_card(0);
    for (int round = 0; round < 2; round++) {
        CHECK(NVML(nvmlDeviceSetComputeMode)(device, 3) == NVML_ERROR_NO_PERMISSION);
        CHECK(NVML(nvmlDeviceSetPowerManagementLimit)(device, 100000) == NVML_ERROR_NO_PERMISSION);
        CHECK(NVML(nvmlDeviceClearEccErrorCounts)(device, 0) == NVML_ERROR_NO_PERMISSION);
        CHECK(NVML(nvmlDeviceResetNvLinkErrorCounters)(device, 0) == NVML_ERROR_NO_PERMISSION);
        CHECK(NVML(nvmlGpuInstanceDestroy)(NULL) == NVML_ERROR_NO_PERMISSION);
        CHECK(NVML(nvmlDeviceSetCpuAffinity)(device) == NVML_SUCCESS);
        files_make(); /* limits or none: it makes no difference */
    }
    NVML(fake_nvml_answer)(1); /* before nvmlInit, as without us */
    CHECK(NVML(nvmlDeviceSetComputeMode)(device, 3) == 1);
    CHECK(NVML(fake_nvml_changes)() == 0);
    /* A function that this driver lacks is absent with us, too. */
    CHECK(dlsym(dlopen("libnvidia-ml.so.1", RTLD_NOW), "nvmlDeviceSetMigMode") == NULL);
    return 0;
}
