/* A card's activity: the getters of fields.def with changing values. */
#include <stdio.h>

#include "fields.h"

#define LENGTH(list) (sizeof(list) / sizeof(list)[0])
#define MIB (1024 * 1024ULL)

static const char *const switches[] = {"Disabled", "Enabled"};

#define SWITCH(name, call)                                                                         \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        unsigned value = 0;                                                                        \
        nvmlReturn_t rc = ASK(call, gpu->device, &value);                                          \
        return put_word(rc, text, switches, LENGTH(switches), value);                              \
    }
/* Modes that take effect at the next boot come in pairs. */
#define SWITCH_PAIR(current_name, pending_name, call)                                              \
    nvmlReturn_t get_##current_name(const struct gpu *gpu, char *text) {                           \
        unsigned current = 0, pending = 0;                                                         \
        nvmlReturn_t rc = ASK(call, gpu->device, &current, &pending);                              \
        return put_word(rc, text, switches, LENGTH(switches), current);                            \
    }                                                                                              \
    nvmlReturn_t get_##pending_name(const struct gpu *gpu, char *text) {                           \
        unsigned current = 0, pending = 0;                                                         \
        nvmlReturn_t rc = ASK(call, gpu->device, &current, &pending);                              \
        return put_word(rc, text, switches, LENGTH(switches), pending);                            \
    }
#define ECC_ERRORS(name, error, counter)                                                           \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        unsigned long long count = 0;                                                              \
        nvmlReturn_t rc = ASK(nvmlDeviceGetTotalEccErrors, gpu->device, error, counter, &count);   \
        return put_number(rc, text, "%llu", count);                                                \
    }
#define MEMORY(name, member)                                                                       \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        nvmlMemory_v2_t memory = {.version = NVML_MEMORY_V2};                                      \
        nvmlReturn_t rc = ASK(nvmlDeviceGetMemoryInfo_v2, gpu->device, &memory);                   \
        return put_number(rc, text, "%llu", memory.member / MIB);                                  \
    }
#define BAR1(name, member)                                                                         \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        nvmlBAR1Memory_t memory = {.bar1Total = 0};                                                \
        nvmlReturn_t rc = ASK(nvmlDeviceGetBAR1MemoryInfo, gpu->device, &memory);                  \
        return put_number(rc, text, "%llu", memory.member / MIB);                                  \
    }
#define UTILIZATION(name, member)                                                                  \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        nvmlUtilization_t utilization = {.gpu = 0};                                                \
        nvmlReturn_t rc = ASK(nvmlDeviceGetUtilizationRates, gpu->device, &utilization);           \
        return put_number(rc, text, "%llu", utilization.member);                                   \
    }
#define VIDEO(name, call)                                                                          \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        unsigned percent = 0, period_us = 0;                                                       \
        nvmlReturn_t rc = ASK(call, gpu->device, &percent, &period_us);                            \
        return put_number(rc, text, "%llu", percent);                                              \
    }
/* A call with one selector before its result: sensors, thresholds, clocks. */
#define SELECTED(name, call, which)                                                                \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        unsigned value = 0;                                                                        \
        nvmlReturn_t rc = ASK(call, gpu->device, which, &value);                                   \
        return put_number(rc, text, "%llu", value);                                                \
    }
#define POWER(name, call)                                                                          \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        unsigned milliwatts = 0;                                                                   \
        nvmlReturn_t rc = ASK(call, gpu->device, &milliwatts);                                     \
        return put_watts(rc, text, milliwatts);                                                    \
    }

static nvmlReturn_t put_watts(nvmlReturn_t rc, char *text, unsigned milliwatts) {
    if (rc == NVML_SUCCESS)
        snprintf(text, TEXT_CHARS, "%u.%02u", milliwatts / 1000, milliwatts % 1000 / 10);
    return rc;
}

SWITCH(display_mode, nvmlDeviceGetDisplayMode)
SWITCH(display_active, nvmlDeviceGetDisplayActive)
SWITCH(persistence_mode, nvmlDeviceGetPersistenceMode)
SWITCH(accounting_mode, nvmlDeviceGetAccountingMode)
SWITCH_PAIR(mig_current, mig_pending, nvmlDeviceGetMigMode)
SWITCH_PAIR(ecc_current, ecc_pending, nvmlDeviceGetEccMode)
ECC_ERRORS(ecc_corrected, 0, 0)
ECC_ERRORS(ecc_uncorrected, 1, 0)
ECC_ERRORS(ecc_corrected_ever, 0, 1)
ECC_ERRORS(ecc_uncorrected_ever, 1, 1)
MEMORY(memory_total, total)
MEMORY(memory_reserved, reserved)
MEMORY(memory_used, used)
MEMORY(memory_free, free)
BAR1(bar1_total, bar1Total)
BAR1(bar1_used, bar1Used)
BAR1(bar1_free, bar1Free)
UTILIZATION(utilization_gpu, gpu)
UTILIZATION(utilization_memory, memory)
VIDEO(utilization_encoder, nvmlDeviceGetEncoderUtilization)
VIDEO(utilization_decoder, nvmlDeviceGetDecoderUtilization)
SELECTED(temperature, nvmlDeviceGetTemperature, 0)
SELECTED(temperature_shutdown, nvmlDeviceGetTemperatureThreshold, 0)
SELECTED(temperature_slowdown, nvmlDeviceGetTemperatureThreshold, 1)
SELECTED(clock_graphics, nvmlDeviceGetClockInfo, 0)
SELECTED(clock_sm, nvmlDeviceGetClockInfo, 1)
SELECTED(clock_memory, nvmlDeviceGetClockInfo, 2)
SELECTED(clock_video, nvmlDeviceGetClockInfo, 3)
SELECTED(clock_max_graphics, nvmlDeviceGetMaxClockInfo, 0)
SELECTED(clock_max_sm, nvmlDeviceGetMaxClockInfo, 1)
SELECTED(clock_max_memory, nvmlDeviceGetMaxClockInfo, 2)
SELECTED(clock_max_video, nvmlDeviceGetMaxClockInfo, 3)
POWER(power_draw, nvmlDeviceGetPowerUsage)
POWER(power_limit, nvmlDeviceGetPowerManagementLimit)
POWER(power_enforced, nvmlDeviceGetEnforcedPowerLimit)
POWER(power_default, nvmlDeviceGetPowerManagementDefaultLimit)

nvmlReturn_t get_power_least(const struct gpu *gpu, char *text) {
    unsigned least = 0, most = 0;
    nvmlReturn_t rc = ASK(nvmlDeviceGetPowerManagementLimitConstraints, gpu->device, &least, &most);
    return put_watts(rc, text, least);
}

nvmlReturn_t get_power_most(const struct gpu *gpu, char *text) {
    unsigned least = 0, most = 0;
    nvmlReturn_t rc = ASK(nvmlDeviceGetPowerManagementLimitConstraints, gpu->device, &least, &most);
    return put_watts(rc, text, most);
}

nvmlReturn_t get_compute_mode(const struct gpu *gpu, char *text) {
    static const char *const modes[] = {"Default", "Exclusive_Thread", "Prohibited",
                                        "Exclusive_Process"};
    unsigned mode = 0;
    nvmlReturn_t rc = ASK(nvmlDeviceGetComputeMode, gpu->device, &mode);
    return put_word(rc, text, modes, LENGTH(modes), mode);
}

nvmlReturn_t get_pstate(const struct gpu *gpu, char *text) {
    unsigned state = 0;
    nvmlReturn_t rc = ASK(nvmlDeviceGetPerformanceState, gpu->device, &state);
    return put_number(rc, text, "P%llu", state);
}

nvmlReturn_t get_fan_speed(const struct gpu *gpu, char *text) {
    unsigned percent = 0;
    nvmlReturn_t rc = ASK(nvmlDeviceGetFanSpeed, gpu->device, &percent);
    return put_number(rc, text, "%llu", percent);
}
