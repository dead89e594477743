#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "smi.h"

struct nvml nvml;

/* ISO C has no conversion from an object to a function pointer; POSIX promises equal layouts. */
static void find(void *library, const char *name, void *pointer) {
    void *found = dlsym(library, name);
    memcpy(pointer, &found, sizeof found);
}

static int load(void) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) {
        puts("NVIDIA-SMI couldn't find the libnvidia-ml.so library on this system. Make sure that "
             "the NVIDIA driver is installed.");
        return EXIT_NO_LIBRARY;
    }
#define NVML(name, params) find(library, #name, &nvml.name);
#include "nvml/entries.def"
#undef NVML
    find(library, "nvmlErrorString", &nvml.nvmlErrorString);
    return 0;
}

int nvml_open(void) {
    int status = load();
    if (status)
        return status;
    nvmlReturn_t rc = ASK(nvmlInitWithFlags, 0);
    if (rc == NVML_SUCCESS)
        return 0;
    if (rc == NVML_ERROR_DRIVER_NOT_LOADED)
        puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
             "sure that the latest NVIDIA driver is installed and running.\n");
    else
        printf("Failed to initialize NVML: %s\n", nvml_words(rc));
    return nvml_status(rc);
}

const char *nvml_words(nvmlReturn_t result) {
    return nvml.nvmlErrorString ? nvml.nvmlErrorString(result) : "Unknown Error";
}

int nvml_status(nvmlReturn_t result) { return (int)result < EXIT_OTHER ? (int)result : EXIT_OTHER; }
