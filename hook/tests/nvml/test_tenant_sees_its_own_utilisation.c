/* NVML's utilisation is the container's own GPU time, in percent of the card's, and the samples are
 * those of its processes. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "asking_nvml.h"
#include "shared/clock.h"

/* As measured for a process that keeps the card busy for half of the time, up to the waits of this
 * test's own processes for a processor. */
enum { LEAST = 35, MOST = 65 };

static int holding[2];
static nvmlDevice_t device;

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static volatile uint64_t *own_busy_ns(void) {
    struct vcuda_ledger_file *file = ledger_map();
    unsigned slot = 0;
    while (file->slots[slot].pid != (uint32_t)getpid()) {
        slot++;
    }
    return &file->slots[slot].cards[0].busy_ns;
}

/* Writes into its slot as the limiter of such a process does. */
static void work_half_the_time(void) {
    ledger_map(); /* closing the file later on would give up the slot where a descriptor keeps it */
    context_make(0);
    volatile uint64_t *busy_ns = own_busy_ns();
    const struct timespec tick = {.tv_nsec = 1000000};
    tell(holding);
    for (uint64_t begin = now_ns();;) {
        *busy_ns = (now_ns() - begin) / 2;
        nanosleep(&tick, NULL);
    }
}

static unsigned rate_now(void) {
    nvmlUtilization_t rates = {.gpu = 999};
    CHECK(GATED(nvmlDeviceGetUtilizationRates)(device, &rates) == NVML_SUCCESS);
    CHECK(rates.gpu <= 100);
    CHECK(rates.memory == FAKE_MEMORY_PERCENT * rates.gpu / FAKE_GPU_PERCENT);
    return rates.gpu;
}

/* A span of NVML's that lies wholly in the present work comes after at most two. */
static void await_rate(unsigned least, unsigned most) {
    const struct timespec tick = {.tv_nsec = 1000000};
    for (unsigned rate = rate_now(); rate < least || rate > most; rate = rate_now()) {
        nanosleep(&tick, NULL);
    }
}

static void expect_sample(pid_t child) {
    nvmlProcessUtilizationSample_t samples[2] = {{.pid = 0}};
    nvmlDeviceGetProcessUtilization_fn *ask = GATED(nvmlDeviceGetProcessUtilization);
    unsigned count = 0;
    CHECK(ask(device, NULL, &count, 0) == NVML_ERROR_INSUFFICIENT_SIZE && count == 1);
    count = 2;
    CHECK(ask(device, samples, &count, 0) == NVML_SUCCESS && count == 1);
    CHECK(samples[0].pid == (unsigned)child && samples[1].pid == 0);
    CHECK(samples[0].smUtil >= LEAST && samples[0].smUtil <= MOST);
    unsigned long long now_s = (unsigned long long)time(NULL);
    CHECK(samples[0].timeStamp / 1000000 <= now_s && samples[0].timeStamp / 1000000 + 5 > now_s);
    CHECK(ask(device, samples, NULL, 0) == NVML_ERROR_INVALID_ARGUMENT);
    count = 2;
    CHECK(ask(device, samples, &count, samples[0].timeStamp - 1) == NVML_SUCCESS);
    CHECK(ask(device, samples, &count, UINT64_MAX) == NVML_ERROR_NOT_FOUND);
}

static void expect_info(pid_t child) {
    nvmlProcessUtilizationInfo_v1_t room[2] = {{.pid = 0}};
    nvmlProcessesUtilizationInfo_v1_t info = {.version = NVML_VERSION_1(info)};
    nvmlDeviceGetProcessesUtilizationInfo_fn *ask = GATED(nvmlDeviceGetProcessesUtilizationInfo);
    CHECK(ask(device, &info) == NVML_ERROR_INSUFFICIENT_SIZE && info.processSamplesCount == 1);
    info.processSamplesCount = 2;
    info.procUtilArray = room;
    CHECK(ask(device, &info) == NVML_SUCCESS && info.processSamplesCount == 1);
    CHECK(room[0].pid == (unsigned)child && room[1].pid == 0);
    CHECK(room[0].smUtil >= LEAST && room[0].smUtil <= MOST && room[0].timeStamp != 0);
    info.version = 7;
    CHECK(ask(device, &info) == NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    CHECK(ask(device, NULL) == NVML_ERROR_INVALID_ARGUMENT);
}

static void expect_the_drivers_refusals(void) {
    nvmlUtilization_t rates;
    unsigned count = 0;
    CHECK(GATED(nvmlDeviceGetUtilizationRates)(device, NULL) == NVML_ERROR_INVALID_ARGUMENT);
    NVML(fake_nvml_answer)(3); /* not supported */
    CHECK(GATED(nvmlDeviceGetUtilizationRates)(device, &rates) == 3);
    CHECK(GATED(nvmlDeviceGetProcessUtilization)(device, NULL, &count, 0) == 3);
    NVML(fake_nvml_answer)(NVML_SUCCESS);
}

int main(void) {
    device = nvml_card(0);
    nvmlUtilization_t rates = {.gpu = 999};
    CHECK(GATED(nvmlDeviceGetUtilizationRates)(device, &rates) == NVML_ERROR_NO_PERMISSION);
    CHECK(rates.gpu == 999); /* no figure of the card leaks out */
    files_make();
    CHECK(rate_now() == 0); /* the neighbour's work isn't ours */
    unsigned count = 0;
    CHECK(GATED(nvmlDeviceGetProcessUtilization)(device, NULL, &count, 0) == NVML_ERROR_NOT_FOUND);

    CHECK(pipe(holding) == 0);
    pid_t child = start_child(work_half_the_time);
    await(holding);
    await_rate(LEAST, MOST);
    expect_sample(child);
    expect_info(child);
    expect_the_drivers_refusals();
    kill(child, 9);
    wait_child(child);
    await_rate(0, 0);
    return 0;
}
