/* libnvidia-ml as the tool sees it: opened at run time, every call by dlsym, as the real tool does.
 * A tenant's hook stands in dlsym, so linking against the library would go past it. */
#ifndef SIMGPU_SMI_NVML_H
#define SIMGPU_SMI_NVML_H

#include "nvml/nvml_abi.h"

struct nvml {
#define NVML(name, params) nvmlReturn_t(*name) params;
#include "nvml/entries.def"
#undef NVML
    const char *(*nvmlErrorString)(nvmlReturn_t result);
};
extern struct nvml nvml;

/* An older library may lack a call; the answer is then the one that NVML has for this. */
#define ASK(call, ...) (nvml.call ? nvml.call(__VA_ARGS__) : NVML_ERROR_FUNCTION_NOT_FOUND)

/* Opens the library and a session. On failure says why and returns the tool's exit status. */
int nvml_open(void);

const char *nvml_words(nvmlReturn_t result);

/* Exit status of the tool for a failed call. */
int nvml_status(nvmlReturn_t result);

#endif
