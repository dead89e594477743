/* Memory, utilisation, power and energy of a card as a whole. */
#include "api.h"

#define SAMPLE_NS 1000000000ULL /* utilisation and power are those of the last second */
/* What a card draws: idle as an idle A100-SXM4-80GB, and up to the 400 W of its data sheet while
 * any kernel runs. A real card's power depends on the kernel; no source says how, and all kernels
 * here are alike. */
#define IDLE_MILLIWATTS 62000U
#define BUSY_MILLIWATTS 400000U

static uint64_t used_bytes(nvmlDevice_t device) {
    sim_lock(session.state);
    sim_clients_reap(session.state);
    uint64_t used = sim_card_used_bytes(session.state, device->card);
    sim_unlock(session.state);
    return used;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, memory, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    memory->total = card->memory_bytes;
    memory->used = used_bytes(device);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

/* These cards keep no memory for themselves: reserved is 0. */
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    nvmlMemory_t plain;
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, memory, &card);
    if (rc == NVML_SUCCESS && memory->version != NVML_MEMORY_V2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS)
        rc = nvmlDeviceGetMemoryInfo(device, &plain);
    if (rc == NVML_SUCCESS) {
        memory->total = plain.total;
        memory->reserved = 0;
        memory->free = plain.free;
        memory->used = plain.used;
    }
    return rc;
}

/* The window through which the CPU reaches the card: 128 GiB on an A100 with 80 GB. */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, memory, &card);
    if (rc == NVML_SUCCESS)
        *memory = (nvmlBAR1Memory_t){128ULL << 30, (128ULL << 30) - (1 << 20), 1 << 20};
    return rc;
}

/* In how many of a million parts of the last second a kernel ran. */
static uint64_t busy_ppm(nvmlDevice_t device) {
    uint64_t span_us, end_ns, now_ns = sim_now_ns();
    sim_lock(session.state);
    sim_clients_reap(session.state);
    sim_timeline_advance(session.state, device->card, now_ns);
    const struct sim_card *line = &session.state->cards[device->card];
    uint64_t window_end = line->window * sim_window_ns(session.state);
    uint64_t busy_us = sim_windows_busy_us(session.state, device->card, line->busy_us,
                                           window_end - SAMPLE_NS, now_ns, &span_us, &end_ns);
    sim_unlock(session.state);
    return span_us ? busy_us * 1000000 / span_us : 0;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, utilization, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    utilization->gpu = (unsigned)((busy_ppm(device) + 5000) / 10000);
    utilization->memory = 0; /* kernels here move no memory */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, milliwatts, &card);
    if (rc == NVML_SUCCESS)
        *milliwatts = (unsigned)(IDLE_MILLIWATTS +
                                 (BUSY_MILLIWATTS - IDLE_MILLIWATTS) * busy_ppm(device) / 1000000);
    return rc;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                 unsigned long long *millijoules) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, millijoules, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    sim_lock(session.state);
    sim_clients_reap(session.state);
    sim_timeline_advance(session.state, device->card, sim_now_ns());
    uint64_t micros = (card->clock_ns - card->loaded_ns) / 1000, busy_micros = card->busy_ns / 1000;
    sim_unlock(session.state);
    *millijoules =
        (micros * IDLE_MILLIWATTS + busy_micros * (BUSY_MILLIWATTS - IDLE_MILLIWATTS)) / 1000000;
    return NVML_SUCCESS;
}

static nvmlReturn_t no_video(nvmlDevice_t device, unsigned *percent, unsigned *period_us) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, percent, &card);
    if (rc == NVML_SUCCESS && !period_us)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        *percent = 0;
        *period_us = 167000; /* 1/6 s */
    }
    return rc;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *percent,
                                             unsigned *period_us) {
    return no_video(device, percent, period_us);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *percent,
                                             unsigned *period_us) {
    return no_video(device, percent, period_us);
}
