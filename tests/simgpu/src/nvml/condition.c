/* Other figures of monitors: clocks, power, modes. Figures of an idle A100-SXM4-80GB, except those
 * that the description decides. */
#include <stdio.h>

#include "api.h"

/* A getter of one constant. */
#define CONSTANT(name, value)                                                                      \
    nvmlReturn_t name(nvmlDevice_t device, unsigned *out) {                                        \
        struct sim_card *card;                                                                     \
        nvmlReturn_t rc = device_check(device, out, &card);                                        \
        if (rc == NVML_SUCCESS)                                                                    \
            *out = (value);                                                                        \
        return rc;                                                                                 \
    }

CONSTANT(nvmlDeviceGetBrand, 14)       /* NVIDIA */
CONSTANT(nvmlDeviceGetArchitecture, 7) /* Ampere */
CONSTANT(nvmlDeviceGetComputeMode, 0)  /* default: any number of contexts */
CONSTANT(nvmlDeviceGetPersistenceMode, 1)
CONSTANT(nvmlDeviceGetAccountingMode, 0)
CONSTANT(nvmlDeviceGetDisplayMode, 0)
CONSTANT(nvmlDeviceGetDisplayActive, 0)
CONSTANT(nvmlDeviceGetVirtualizationMode, 0)
CONSTANT(nvmlDeviceIsMigDeviceHandle, 0)
CONSTANT(nvmlDeviceGetMaxMigDeviceCount, 7)
CONSTANT(nvmlDeviceGetPowerManagementLimit, 400000)
CONSTANT(nvmlDeviceGetPowerManagementDefaultLimit, 400000)
CONSTANT(nvmlDeviceGetEnforcedPowerLimit, 400000)
CONSTANT(nvmlDeviceGetPerformanceState, 0) /* P0 */
CONSTANT(nvmlDeviceGetPowerState, 0)
CONSTANT(nvmlDeviceGetCurrPcieLinkGeneration, 4)
CONSTANT(nvmlDeviceGetCurrPcieLinkWidth, 16)
CONSTANT(nvmlDeviceGetMaxPcieLinkGeneration, 4)
CONSTANT(nvmlDeviceGetMaxPcieLinkWidth, 16)
CONSTANT(nvmlDeviceGetNumGpuCores, card->sms * 64) /* FP32 units of an A100's SM */

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, major, &card);
    if (rc == NVML_SUCCESS && !minor)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        *major = (int)card->capability_major;
        *minor = (int)card->capability_minor;
    }
    return rc;
}

static nvmlReturn_t both(nvmlDevice_t device, unsigned *current, unsigned *pending,
                         unsigned value) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, current, &card);
    if (rc == NVML_SUCCESS && !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *current = *pending = value;
    return rc;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    return both(device, current, pending, 1);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    return both(device, current, pending, 0);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned error, unsigned counter,
                                         unsigned long long *count) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, count, &card);
    if (rc == NVML_SUCCESS && (error > 1 || counter > 1))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *count = error == 1 ? card->ecc_errors : 0;
    return rc;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected,
                                       unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, corrected, &card);
    if (rc == NVML_SUCCESS && (!uncorrected || !pending || !failed))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        *corrected = 0;
        *uncorrected = card->remap != SIM_REMAP_NONE;
        *pending = card->remap == SIM_REMAP_PENDING;
        *failed = card->remap == SIM_REMAP_FAILED;
    }
    return rc;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *celsius) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, celsius, &card);
    if (rc == NVML_SUCCESS && sensor != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *celsius = 34;
    return rc;
}

/* Shutdown and slowdown. */
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned kind,
                                               unsigned *celsius) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, celsius, &card);
    if (rc == NVML_SUCCESS && kind > 1)
        return NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *celsius = kind == 0 ? 92 : 89;
    return rc;
}

/* SXM boards are cooled by their host. */
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned *percent) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, percent, &card);
    return rc == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : rc;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *least,
                                                          unsigned *most) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, least, &card);
    if (rc == NVML_SUCCESS && !most)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        *least = 100000;
        *most = 400000;
    }
    return rc;
}

/* Graphics, SM, memory, video. */
static nvmlReturn_t clock_of(nvmlDevice_t device, unsigned clock, unsigned *mhz,
                             const unsigned *clocks) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, mhz, &card);
    if (rc == NVML_SUCCESS && clock > 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *mhz = clocks[clock];
    return rc;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned clock, unsigned *mhz) {
    return clock_of(device, clock, mhz, (const unsigned[]){1410, 1410, 1593, 1275});
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned clock, unsigned *mhz) {
    return clock_of(device, clock, mhz, (const unsigned[]){1410, 1410, 1593, 1290});
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned size) {
    struct sim_card *card;
    nvmlReturn_t rc = device_card(device, &card);
    return rc == NVML_SUCCESS ? copy_text(version, size, "92.00.45.00.03") : rc;
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned size) {
    char text[24];
    struct sim_card *card;
    nvmlReturn_t rc = device_card(device, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    snprintf(text, sizeof text, "15630210%05u", card->minor);
    return copy_text(serial, size, text);
}
