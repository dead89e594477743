/* NVML's list names the container's processes by their own PIDs, and no neighbour's. */
#include <dlfcn.h>
#include <unistd.h>

#include "support.h"

static int holding[2], done[2];

static void hold(void) {
    context_make(0);
    allocate(10 * MIB);
    tell(holding);
    await(done);
}

int main(void) {
    files_make();
    CHECK(pipe(holding) == 0 && pipe(done) == 0);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    CHECK(library != NULL);
    nvmlReturn_t (*handle)(unsigned, nvmlDevice_t *) =
        (nvmlReturn_t(*)(unsigned, nvmlDevice_t *))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    nvmlDeviceGetComputeRunningProcesses_v3_fn *list =
        (nvmlDeviceGetComputeRunningProcesses_v3_fn *)dlsym(
            library, "nvmlDeviceGetComputeRunningProcesses_v3");
    nvmlDevice_t device;
    nvmlProcessInfo_v2_t processes[4];
    CHECK(handle(0, &device) == NVML_SUCCESS);
    unsigned count = 4;
    CHECK(list(device, &count, processes) == NVML_SUCCESS && count == 0);

    pid_t child = start_child(hold);
    await(holding);
    count = 0;
    CHECK(list(device, &count, NULL) == NVML_ERROR_INSUFFICIENT_SIZE && count == 1);
    count = 4;
    CHECK(list(device, &count, processes) == NVML_SUCCESS && count == 1);
    CHECK(processes[0].pid == (unsigned)child);
    CHECK(processes[0].usedGpuMemory == CONTEXT_BYTES + 10 * MIB);
    CHECK(list(device, NULL, processes) == NVML_ERROR_INVALID_ARGUMENT);
    tell(done);
    CHECK(wait_child(child) == 0);
    count = 4;
    CHECK(list(device, &count, processes) == NVML_SUCCESS && count == 0);
    return 0;
}
