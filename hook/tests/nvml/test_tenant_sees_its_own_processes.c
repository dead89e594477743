/* NVML's lists name the container's processes by their own PIDs, and no neighbour's. */
#include <unistd.h>

#include "asking_nvml.h"

static int holding[2], done[2];
static nvmlDevice_t device;

static void hold(void) {
    context_make(0);
    allocate(10 * MIB);
    tell(holding);
    await(done);
}

/* Every list of one kind, in its three forms, by NVML's rule for room. */
#define EXPECT_LIST(name, type, expected)                                                          \
    do {                                                                                           \
        type list[4] = {{.pid = 0}};                                                               \
        unsigned count = 4;                                                                        \
        CHECK(GATED(name)(device, &count, list) == NVML_SUCCESS && count == (expected));           \
        CHECK((expected) == 0 || (list[0].pid == (unsigned)child &&                                \
                                  list[0].usedGpuMemory == CONTEXT_BYTES + 10 * MIB));             \
        CHECK(list[expected].pid == 0);                                                            \
        count = 0;                                                                                 \
        CHECK(GATED(name)(device, &count, NULL) ==                                                 \
              ((expected) == 0 ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE));                    \
        CHECK(count == (expected));                                                                \
        CHECK(GATED(name)(device, NULL, list) == NVML_ERROR_INVALID_ARGUMENT);                     \
        count = 1;                                                                                 \
        CHECK(GATED(name)(device, &count, NULL) == NVML_ERROR_INVALID_ARGUMENT);                   \
    } while (0)
#define EXPECT_LISTS(name, expected)                                                               \
    EXPECT_LIST(name, nvmlProcessInfo_v1_t, expected);                                             \
    EXPECT_LIST(name##_v2, nvmlProcessInfo_v2_t, expected);                                        \
    EXPECT_LIST(name##_v3, nvmlProcessInfo_v2_t, expected)

static void expect_details(unsigned mode, unsigned expected, pid_t child) {
    nvmlProcessDetail_v1_t room[2] = {{.pid = 0}};
    nvmlProcessDetailList_v1_t list = {.version = NVML_VERSION_1(list), .mode = mode};
    CHECK(GATED(nvmlDeviceGetRunningProcessDetailList)(device, &list) ==
          (expected == 0 ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE));
    CHECK(list.numProcArrayEntries == expected);
    list.numProcArrayEntries = 2;
    list.procArray = room;
    CHECK(GATED(nvmlDeviceGetRunningProcessDetailList)(device, &list) == NVML_SUCCESS);
    CHECK(list.numProcArrayEntries == expected && room[expected].pid == 0);
    CHECK(expected == 0 || (room[0].pid == (unsigned)child && room[0].gpuInstanceId == UINT32_MAX &&
                            room[0].usedGpuMemory == CONTEXT_BYTES + 10 * MIB));
}

static void expect_versions(void) {
    nvmlProcessDetailList_v1_t list = {.version = 5};
    nvmlDeviceGetRunningProcessDetailList_fn *ask = GATED(nvmlDeviceGetRunningProcessDetailList);
    CHECK(ask(device, &list) == NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    list.version = sizeof list | 2u << 24; /* the driver knows it, the hook doesn't */
    CHECK(ask(device, &list) == NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    list.version = 0xffffff | 1u << 24; /* larger than any size */
    CHECK(ask(device, &list) == NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    list = (nvmlProcessDetailList_v1_t){.version = NVML_VERSION_1(list), .mode = 9};
    CHECK(ask(device, &list) == NVML_ERROR_INVALID_ARGUMENT);
    CHECK(ask(device, NULL) == NVML_ERROR_INVALID_ARGUMENT);
}

static void expect_nobody_else(void) {
    unsigned count = 1, pid = 0;
    CHECK(GATED(nvmlDeviceGetAccountingPids)(device, &count, &pid) == NVML_SUCCESS);
    CHECK(count == 0 && pid == 0);
    CHECK(GATED(nvmlDeviceGetAccountingStats)(device, FAKE_NEIGHBOUR_PID, NULL) ==
          NVML_ERROR_NOT_FOUND);
    CHECK(GATED(nvmlDeviceGetEncoderSessions)(device, &count, NULL) == NVML_SUCCESS && count == 0);
    CHECK(GATED(nvmlDeviceGetFBCSessions)(device, &count, NULL) == NVML_SUCCESS && count == 0);
}

/* Not initialised, lost, not supported: as without us. */
static void expect_the_drivers_refusals(void) {
    const nvmlReturn_t refusals[] = {1, 3, 15};
    for (unsigned i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        unsigned count = 0;
        nvmlProcessDetailList_v1_t list = {.version = NVML_VERSION_1(list)};
        NVML(fake_nvml_answer)(refusals[i]);
        CHECK(GATED(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, NULL) == refusals[i]);
        CHECK(GATED(nvmlDeviceGetGraphicsRunningProcesses)(device, &count, NULL) == refusals[i]);
        CHECK(GATED(nvmlDeviceGetRunningProcessDetailList)(device, &list) == refusals[i]);
        CHECK(GATED(nvmlDeviceGetAccountingStats)(device, 1, NULL) == refusals[i]);
        NVML(fake_nvml_answer)(NVML_SUCCESS);
    }
    unsigned count = 0;
    char nothing;
    CHECK(GATED(nvmlDeviceGetComputeRunningProcesses)((nvmlDevice_t)(void *)&nothing, &count,
                                                      NULL) == NVML_ERROR_INVALID_ARGUMENT);
}

static void expect_all(pid_t child, unsigned expected) {
    EXPECT_LISTS(nvmlDeviceGetComputeRunningProcesses, expected);
    EXPECT_LISTS(nvmlDeviceGetGraphicsRunningProcesses, 0);
    EXPECT_LISTS(nvmlDeviceGetMPSComputeRunningProcesses, 0);
    expect_details(NVML_PROCESS_MODE_COMPUTE, expected, child);
    expect_details(NVML_PROCESS_MODE_ALL, expected, child);
    expect_details(1, 0, child);
    expect_details(2, 0, child);
}

int main(void) {
    files_make();
    CHECK(pipe(holding) == 0 && pipe(done) == 0);
    device = nvml_card(0);
    expect_all(0, 0);
    pid_t child = start_child(hold);
    await(holding);
    expect_all(child, 1);
    expect_versions();
    expect_nobody_else();
    expect_the_drivers_refusals();
    nvmlProcessInfo_v2_t other;
    unsigned count = 1;
    CHECK(GATED(nvmlDeviceGetComputeRunningProcesses_v3)(nvml_card(1), &count, &other) ==
              NVML_SUCCESS &&
          count == 0);

    tell(done);
    CHECK(wait_child(child) == 0);
    count = 1;
    CHECK(GATED(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, &other) == NVML_SUCCESS);
    CHECK(count == 0);
    return 0;
}
