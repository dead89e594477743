/* The cards of a call. */
#include <stdio.h>
#include <string.h>

#include "smi.h"

static int refuse(nvmlReturn_t rc, const char *id) {
    if (rc == NVML_ERROR_NOT_FOUND || rc == NVML_ERROR_INVALID_ARGUMENT) {
        puts("No devices were found");
        return EXIT_NO_DEVICE;
    }
    printf("Unable to determine the device handle for GPU%s: %s%s\n", id, nvml_words(rc),
           rc == NVML_ERROR_GPU_IS_LOST ? ".  Reboot the system to recover this GPU" : "");
    return nvml_status(rc);
}

/* By its form: an index, a PCI address, else a UUID. */
static nvmlReturn_t find(const char *id, nvmlDevice_t *device) {
    unsigned index;
    if (parse_number(id, 0, GPUS_MAX - 1, &index))
        return ASK(nvmlDeviceGetHandleByIndex_v2, index, device);
    if (strchr(id, ':'))
        return ASK(nvmlDeviceGetHandleByPciBusId_v2, id, device);
    return ASK(nvmlDeviceGetHandleByUUID, id, device);
}

static int add(struct gpus *gpus, const char *id) {
    struct gpu gpu;
    nvmlReturn_t rc = find(id, &gpu.device);
    if (rc == NVML_SUCCESS)
        rc = ASK(nvmlDeviceGetIndex, gpu.device, &gpu.index);
    if (rc != NVML_SUCCESS)
        return refuse(rc, id);
    for (unsigned i = 0; i < gpus->count; i++)
        if (gpus->gpu[i].device == gpu.device)
            return 0;
    if (gpus->count < GPUS_MAX)
        gpus->gpu[gpus->count++] = gpu;
    return 0;
}

static int add_all(struct gpus *gpus) {
    unsigned count = 0;
    nvmlReturn_t rc = ASK(nvmlDeviceGetCount_v2, &count);
    if (rc != NVML_SUCCESS) {
        printf("Unable to count the devices: %s\n", nvml_words(rc));
        return nvml_status(rc);
    }
    for (unsigned index = 0; index < count && index < GPUS_MAX; index++) {
        char id[12];
        snprintf(id, sizeof id, "%u", index);
        int status = add(gpus, id);
        if (status)
            return status;
    }
    return gpus->count ? 0 : refuse(NVML_ERROR_NOT_FOUND, "");
}

int gpus_select(const char *ids, struct gpus *gpus) {
    gpus->count = 0;
    if (!ids)
        return add_all(gpus);
    while (true) {
        char id[TEXT_CHARS];
        size_t chars = strcspn(ids, ",");
        snprintf(id, sizeof id, "%.*s", (int)chars, ids);
        int status = add(gpus, id);
        if (status || !ids[chars])
            return status;
        ids += chars + 1;
    }
}
