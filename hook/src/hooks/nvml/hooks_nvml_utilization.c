#include "hooks/nvml/hooks_nvml_utilization.h"

#include "hooks/nvml/hooks_nvml.h"
#include "hooks/nvml/utilization.h"

static nvmlReturn_t utilization_by(struct driver *driver, nvmlDevice_t device,
                                   struct utilization *utilization) {
    CUuuid uuid;
    nvmlReturn_t result = nvml_uuid(driver, device, &uuid);
    if (result == NVML_SUCCESS && utilization_of(&uuid, utilization) != CUDA_SUCCESS) {
        result = NVML_ERROR_NO_PERMISSION;
    }
    return result;
}

/* The driver's figure counts the time of reads and writes for the whole card. A container alone on
 * the card gets that figure; a container beside others gets its part by GPU time. */
static unsigned memory_percent(const nvmlUtilization_t *card, unsigned own) {
    unsigned gpu = card->gpu > own ? card->gpu : own;
    return gpu == 0 ? 0 : card->memory * own / gpu;
}

nvmlReturn_t gate_nvmlDeviceGetUtilizationRates(struct driver *driver, nvmlDevice_t device,
                                                nvmlUtilization_t *rates) {
    nvmlUtilization_t card = {.gpu = 0};
    struct utilization utilization;
    nvmlReturn_t result =
        REAL(driver, nvmlDeviceGetUtilizationRates)(device, rates == NULL ? NULL : &card);
    if (result == NVML_SUCCESS) {
        result = utilization_by(driver, device, &utilization);
    }
    if (result == NVML_SUCCESS) {
        *rates = (nvmlUtilization_t){.gpu = utilization.percent,
                                     .memory = memory_percent(&card, utilization.percent)};
    }
    return result;
}

/* NVML's rule for samples: those of processes that used the card since the time stamp; NOT_FOUND
 * where there are none. */
static nvmlReturn_t check_room(const struct utilization *utilization, unsigned long long since_us,
                               unsigned int *count, const void *room) {
    unsigned found = utilization->until_us > since_us ? utilization->count : 0;
    if (found == 0) {
        return NVML_ERROR_NOT_FOUND;
    }
    bool fits = room != NULL && found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

/* A card without work lately proves nothing for the container, whose work is counted as it ends. */
static nvmlReturn_t refusal(nvmlReturn_t asked) {
    return asked == NVML_ERROR_NOT_FOUND ? NVML_SUCCESS : nvml_refusal(asked);
}

nvmlReturn_t gate_nvmlDeviceGetProcessUtilization(struct driver *driver, nvmlDevice_t device,
                                                  nvmlProcessUtilizationSample_t *samples,
                                                  unsigned int *count,
                                                  unsigned long long since_us) {
    unsigned int none = 0;
    struct utilization utilization;
    nvmlReturn_t result =
        refusal(REAL(driver, nvmlDeviceGetProcessUtilization)(device, NULL, &none, since_us));
    if (result == NVML_SUCCESS && count == NULL) {
        result = NVML_ERROR_INVALID_ARGUMENT;
    }
    if (result == NVML_SUCCESS) {
        result = utilization_by(driver, device, &utilization);
    }
    if (result == NVML_SUCCESS) {
        result = check_room(&utilization, since_us, count, samples);
    }
    for (unsigned i = 0; result == NVML_SUCCESS && i < *count; i++) {
        samples[i] = (nvmlProcessUtilizationSample_t){.pid = utilization.processes[i].pid,
                                                      .timeStamp = utilization.until_us,
                                                      .smUtil = utilization.processes[i].percent};
    }
    return result;
}

static nvmlReturn_t fill_info(struct driver *driver, nvmlDevice_t device,
                              nvmlProcessesUtilizationInfo_v1_t *info) {
    struct utilization utilization;
    nvmlReturn_t result = utilization_by(driver, device, &utilization);
    if (result == NVML_SUCCESS) {
        result = check_room(&utilization, info->lastSeenTimeStamp, &info->processSamplesCount,
                            info->procUtilArray);
    }
    for (unsigned i = 0; result == NVML_SUCCESS && i < info->processSamplesCount; i++) {
        info->procUtilArray[i] =
            (nvmlProcessUtilizationInfo_v1_t){.timeStamp = utilization.until_us,
                                              .pid = utilization.processes[i].pid,
                                              .smUtil = utilization.processes[i].percent};
    }
    return result;
}

nvmlReturn_t gate_nvmlDeviceGetProcessesUtilizationInfo(struct driver *driver, nvmlDevice_t device,
                                                        nvmlProcessesUtilizationInfo_v1_t *info) {
    union {
        nvmlProcessesUtilizationInfo_v1_t info;
        unsigned char room[NVML_STRUCT_ROOM];
    } question = {.room = {0}};
    nvmlReturn_t asked = nvml_check_struct(driver, device, info == NULL ? NULL : &info->version);
    if (asked != NVML_SUCCESS) {
        return asked;
    }
    question.info.version = info->version;
    question.info.lastSeenTimeStamp = info->lastSeenTimeStamp;
    asked = refusal(REAL(driver, nvmlDeviceGetProcessesUtilizationInfo)(device, &question.info));
    if (asked == NVML_SUCCESS && info->version != NVML_VERSION_1(*info)) {
        asked = NVML_ERROR_ARGUMENT_VERSION_MISMATCH; /* known to the driver, not to the hook */
    }
    return asked == NVML_SUCCESS ? fill_info(driver, device, info) : asked;
}
