/*
 * How busy the container keeps a card, in percent of the card's time: with a share of 30 % it is 30
 * when all of the share is used. From the ledger, whose count of GPU time is the limiter's own.
 * Closed without limits.
 */
#include "hooks/nvml/hooks_nvml.h"
#include "hooks/nvml/utilization.h"

static nvmlReturn_t usage_by(struct driver *driver, nvmlDevice_t device, struct usage *usage) {
    CUuuid uuid;
    nvmlReturn_t result = nvml_uuid(driver, device, &uuid);
    if (result == NVML_SUCCESS && usage_of(&uuid, usage) != CUDA_SUCCESS) {
        result = NVML_ERROR_NO_PERMISSION;
    }
    return result;
}

/* The driver's counts the time of reads and writes for the whole card. Alone on it that is the
 * container's; beside others it is its part by GPU time. */
static unsigned memory_percent(const nvmlUtilization_t *card, unsigned own) {
    unsigned gpu = card->gpu > own ? card->gpu : own;
    return gpu == 0 ? 0 : card->memory * own / gpu;
}

nvmlReturn_t gate_nvmlDeviceGetUtilizationRates(struct driver *driver, nvmlDevice_t device,
                                                nvmlUtilization_t *rates) {
    nvmlUtilization_t card = {.gpu = 0};
    struct usage usage;
    nvmlReturn_t result =
        REAL(driver, nvmlDeviceGetUtilizationRates)(device, rates == NULL ? NULL : &card);
    if (result == NVML_SUCCESS) {
        result = usage_by(driver, device, &usage);
    }
    if (result == NVML_SUCCESS) {
        *rates = (nvmlUtilization_t){.gpu = usage.percent,
                                     .memory = memory_percent(&card, usage.percent)};
    }
    return result;
}

/* NVML's rule for samples: those of processes that used the card since the time stamp; NOT_FOUND
 * where there are none. */
static nvmlReturn_t check_room(const struct usage *usage, unsigned long long since_us,
                               unsigned int *count, const void *room) {
    unsigned found = usage->until_us > since_us ? usage->count : 0;
    if (found == 0) {
        return NVML_ERROR_NOT_FOUND;
    }
    bool fits = room != NULL && found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

/* That the card has seen no work lately says nothing of the container's, which is counted as it
 * ends. */
static nvmlReturn_t refusal(nvmlReturn_t asked) {
    return asked == NVML_ERROR_NOT_FOUND ? NVML_SUCCESS : nvml_refusal(asked);
}

nvmlReturn_t gate_nvmlDeviceGetProcessUtilization(struct driver *driver, nvmlDevice_t device,
                                                  nvmlProcessUtilizationSample_t *samples,
                                                  unsigned int *count,
                                                  unsigned long long since_us) {
    unsigned int none = 0;
    struct usage usage;
    nvmlReturn_t result =
        refusal(REAL(driver, nvmlDeviceGetProcessUtilization)(device, NULL, &none, since_us));
    if (result == NVML_SUCCESS && count == NULL) {
        result = NVML_ERROR_INVALID_ARGUMENT;
    }
    if (result == NVML_SUCCESS) {
        result = usage_by(driver, device, &usage);
    }
    if (result == NVML_SUCCESS) {
        result = check_room(&usage, since_us, count, samples);
    }
    for (unsigned i = 0; result == NVML_SUCCESS && i < *count; i++) {
        samples[i] = (nvmlProcessUtilizationSample_t){.pid = usage.processes[i].pid,
                                                      .timeStamp = usage.until_us,
                                                      .smUtil = usage.processes[i].percent};
    }
    return result;
}

static nvmlReturn_t fill_info(struct driver *driver, nvmlDevice_t device,
                              nvmlProcessesUtilizationInfo_v1_t *info) {
    struct usage usage;
    nvmlReturn_t result = usage_by(driver, device, &usage);
    if (result == NVML_SUCCESS) {
        result = check_room(&usage, info->lastSeenTimeStamp, &info->processSamplesCount,
                            info->procUtilArray);
    }
    for (unsigned i = 0; result == NVML_SUCCESS && i < info->processSamplesCount; i++) {
        info->procUtilArray[i] =
            (nvmlProcessUtilizationInfo_v1_t){.timeStamp = usage.until_us,
                                              .pid = usage.processes[i].pid,
                                              .smUtil = usage.processes[i].percent};
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
        asked = NVML_ERROR_ARGUMENT_VERSION_MISMATCH; /* the driver knows it, we don't */
    }
    return asked == NVML_SUCCESS ? fill_info(driver, device, info) : asked;
}
