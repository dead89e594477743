/* Inside the simulated libnvidia-ml: prototypes of every entry point, and the session. */
#ifndef SIMGPU_NVML_API_H
#define SIMGPU_NVML_API_H

#include <pthread.h>
#include <stdbool.h>

#include "nvml_abi.h"
#include "state/clients.h"
#include "state/state.h"
#include "state/timeline.h"
#include "state/windows.h"

#define NVML(name, params) nvmlReturn_t name params;
#include "entries.def"
#undef NVML
const char *nvmlErrorString(nvmlReturn_t result); /* the one that returns no result */

/* A handle: stays valid from one session to the next, as the real ones do in practice. */
struct device {
    uint32_t card; /* index in the shared state */
    bool visible;
};

struct session {
    pthread_mutex_t lock;
    unsigned users; /* nvmlInit calls without their nvmlShutdown */
    struct sim_state *state;
    unsigned count;
    uint32_t order[SIM_CARDS_MAX]; /* by NVML index: card */
    struct device devices[SIM_CARDS_MAX];
};
extern struct session session;

/* UNINITIALIZED before nvmlInit; LIB_RM_VERSION_MISMATCH. Waits while the driver hangs. */
nvmlReturn_t session_ready(void);

/* The card of a handle: INVALID_ARGUMENT, GPU_IS_LOST. */
nvmlReturn_t device_card(nvmlDevice_t device, struct sim_card **card);

/* The same, checking one output pointer too; most calls are of that shape. */
nvmlReturn_t device_check(nvmlDevice_t device, const void *output, struct sim_card **card);

nvmlReturn_t copy_text(char *out, unsigned size, const char *text);

/* Both forms of a PCI address, of the bus as text "0000:07:00.0". */
void fill_pci(nvmlPciInfo_t *pci, const char *bus);
void fill_pci_v2(nvmlPciInfo_v2_t *pci, const char *bus);

#endif
