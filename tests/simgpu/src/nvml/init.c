/* Sessions, and facts about the machine. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api.h"

struct session session = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Indexes follow the PCI bus and hold only the cards that this process may use. */
static void enumerate(void) {
    struct sim_state *state = session.state;
    session.count = 0;
    for (uint32_t card = 0; card < state->card_count; card++) {
        session.devices[card] = (struct device){card, sim_card_granted(&state->cards[card])};
        if (!session.devices[card].visible)
            continue;
        unsigned at = session.count++;
        for (;
             at > 0 && strcmp(state->cards[session.order[at - 1]].bus, state->cards[card].bus) > 0;
             at--)
            session.order[at] = session.order[at - 1];
        session.order[at] = card;
    }
}

static bool mismatch(void) {
    return session.state->nvml_mismatch || sim_driver_mismatch(session.state);
}

/* Without the control node: no driver; with one that the cgroup forbids: the real NVML's famous
 * "Unknown Error". */
static nvmlReturn_t open_driver(void) {
    session.state = sim_state_map();
    if (!session.state)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (mismatch())
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    if (sim_node_granted("nvidiactl"))
        return NVML_SUCCESS;
    if (errno == EACCES)
        return NVML_ERROR_NO_PERMISSION;
    return errno == EPERM ? NVML_ERROR_UNKNOWN : NVML_ERROR_DRIVER_NOT_LOADED;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags; /* 1: a host without GPUs is fine, 2: don't attach; unused here */
    pthread_mutex_lock(&session.lock);
    nvmlReturn_t rc = session.users ? NVML_SUCCESS : open_driver();
    if (rc == NVML_SUCCESS && session.users++ == 0)
        enumerate();
    pthread_mutex_unlock(&session.lock);
    return rc;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    pthread_mutex_lock(&session.lock);
    nvmlReturn_t rc = session.users ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    session.users -= session.users > 0;
    pthread_mutex_unlock(&session.lock);
    return rc;
}

/* A driver that hangs does so in the kernel; here its callers wait until it is well again. */
nvmlReturn_t session_ready(void) {
    if (!session.users)
        return NVML_ERROR_UNINITIALIZED;
    while (__atomic_load_n(&session.state->nvml_hangs, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return mismatch() ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : NVML_SUCCESS;
}

nvmlReturn_t copy_text(char *out, unsigned size, const char *text) {
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned size) {
    nvmlReturn_t rc = session_ready();
    return rc == NVML_SUCCESS ? copy_text(version, size, session.state->driver) : rc;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned size) {
    char text[64] = "12."; /* NVML's own generation, then the driver's version */
    strncat(text, SIMGPU_DRIVER, sizeof text - 4);
    return copy_text(version, size, text);
}

/* Both work without a session, as documented. */
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    const struct sim_state *state = sim_state_map();
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!state)
        return NVML_ERROR_LIBRARY_NOT_FOUND;
    *version = state->cuda_version;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size) {
    char path[64], text[1024] = "";
    nvmlReturn_t rc = session_ready();
    if (rc != NVML_SUCCESS)
        return rc;
    if (!name || size == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NO_PERMISSION;
    size_t got = fread(text, 1, sizeof text - 1, file); /* ends at the first argument's NUL */
    fclose(file);
    if (got == 0)
        return NVML_ERROR_NOT_FOUND;
    snprintf(name, size, "%s", text); /* cut to size, as the real one does */
    return NVML_SUCCESS;
}

/* Units were the S-class boxes of the Tesla years. */
nvmlReturn_t nvmlUnitGetCount(unsigned *count) {
    nvmlReturn_t rc = session_ready();
    if (rc == NVML_SUCCESS && !count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *count = 0;
    return rc;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    switch ((int)result) {
#define RETURN(name, value, text)                                                                  \
    case value:                                                                                    \
        return text;
#include "returns.def"
#undef RETURN
    default:
        return "Unknown Error";
    }
}
