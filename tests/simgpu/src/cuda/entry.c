/* Checks on every call from outside: injected faults, callbacks, captures of other threads. */
#include "entry.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "capture.h"

static __thread bool in_callback;

void entry_in_callback(bool inside) { in_callback = inside; }

/* These reach neither the card nor the process's state. */
static bool is_harmless(const char *symbol) {
    static const char *const names[] = {"cuGetProcAddress", "cuGetErrorName", "cuGetErrorString",
                                        "cuDriverGetVersion"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(symbol, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

CUresult entry_check(unsigned index) {
    const char *symbol = entries[index].symbol;
    if (in_callback && !is_harmless(symbol))
        return CUDA_ERROR_NOT_PERMITTED;
    int saved = errno;
    CUresult rc = fault_check(symbol);
    if (rc == CUDA_SUCCESS)
        rc = capture_check(index);
    errno = saved;
    return rc;
}

/* Stands for every name that this driver exports without simulating it. */
CUresult entry_missing(void) __asm__("entry_missing");
CUresult entry_missing(void) {
    CUresult rc = driver_ready();
    return rc == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : rc;
}

int entry_cuda_version(void) {
    const struct sim_state *state = sim_state_map();
    int version = state ? state->cuda_version : library_cuda;
    const char *generation = getenv("SIMGPU_GENERATION");
    unsigned major, minor;
    if (generation && sscanf(generation, "%u.%u", &major, &minor) == 2)
        version = (int)(major * 1000 + minor * 10);
    return version < library_cuda ? version : library_cuda;
}
