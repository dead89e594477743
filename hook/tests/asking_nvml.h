/* Shared by tests that ask NVML: its functions by dlopen and dlsym, and a card's handle. */
#ifndef ASKING_NVML_H
#define ASKING_NVML_H

#include "fake/fake_nvml.h"
#include "support.h"

static inline void *nvml_function(const char *name) {
    return library_function("libnvidia-ml.so.1", name);
}
#define NVML(name) ((__typeof__(&name))nvml_function(#name))
/* A gated function: the fake driver's headers give it no prototype. */
#define GATED(name) ((name##_fn *)nvml_function(#name))

static inline nvmlDevice_t nvml_card(unsigned index) {
    nvmlDevice_t device;
    CHECK(NVML(nvmlDeviceGetHandleByIndex_v2)(index, &device) == NVML_SUCCESS);
    return device;
}

#endif
