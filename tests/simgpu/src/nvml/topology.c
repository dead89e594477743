/* The places of cards on the machine: bridges, NUMA nodes, CPUs. */
#include <string.h>
#include <unistd.h>

#include "api.h"

static const struct {
    const char *token;
    unsigned level;
} levels[] = {{"X", TOPOLOGY_INTERNAL},     {"PIX", TOPOLOGY_SINGLE}, {"PXB", TOPOLOGY_MULTIPLE},
              {"PHB", TOPOLOGY_HOSTBRIDGE}, {"NODE", TOPOLOGY_NODE},  {"SYS", TOPOLOGY_SYSTEM}};

/* The matrix says NV<n> where there are NVLinks, and so hides the PCI path; that one is then
 * taken to be as long as the NUMA nodes make it. */
static unsigned level_between(uint32_t a, uint32_t b) {
    const struct sim_state *state = session.state;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (strcmp(state->links[a][b], levels[i].token) == 0)
            return levels[i].level;
    return state->cards[a].numa == state->cards[b].numa ? TOPOLOGY_NODE : TOPOLOGY_SYSTEM;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                                 unsigned *level) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, level, &card);
    if (rc == NVML_SUCCESS)
        rc = device_card(other, &card);
    if (rc == NVML_SUCCESS)
        *level = level_between(device->card, other->card);
    return rc;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned level, unsigned *count,
                                              nvmlDevice_t *others) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, count, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    unsigned room = *count, found = 0;
    for (unsigned index = 0; index < session.count; index++) {
        uint32_t other = session.order[index];
        if (other == device->card || level_between(device->card, other) != level)
            continue;
        if (found < room && others)
            others[found] = &session.devices[other];
        found++;
    }
    *count = found;
    return NVML_SUCCESS;
}

/* 0: reads, writes and the rest work between cards that NVLinks join; 5: not supported. */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, unsigned capability,
                                    unsigned *status) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, status, &card);
    if (rc == NVML_SUCCESS)
        rc = device_card(other, &card);
    if (rc == NVML_SUCCESS && capability > 4)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *status = strncmp(session.state->links[device->card][other->card], "NV", 2) == 0 ? 0 : 5;
    return rc;
}

nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, node, &card);
    if (rc == NVML_SUCCESS && card->numa < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *node = (unsigned)card->numa;
    return rc;
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned size, unsigned long *nodes,
                                         unsigned scope) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, nodes, &card);
    if (rc == NVML_SUCCESS && (size == 0 || scope > 1))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc != NVML_SUCCESS)
        return rc;
    memset(nodes, 0, size * sizeof *nodes);
    if (card->numa < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    nodes[0] = 1UL << card->numa; /* describe.c takes nodes up to 63 */
    return NVML_SUCCESS;
}

/* Every CPU: the kernel alone knows those of a NUMA node. */
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size, unsigned long *cpus) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, cpus, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    unsigned bits = 8 * sizeof *cpus;
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    memset(cpus, 0, size * sizeof *cpus);
    for (unsigned cpu = 0; cpu < (unsigned)count && cpu / bits < size; cpu++)
        cpus[cpu / bits] |= 1UL << cpu % bits;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned size,
                                                 unsigned long *cpus, unsigned scope) {
    return scope <= 1 ? nvmlDeviceGetCpuAffinity(device, size, cpus) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned *multi) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, multi, &card);
    if (rc == NVML_SUCCESS)
        *multi = 0;
    return rc;
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t other, int *same) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, same, &card);
    if (rc == NVML_SUCCESS)
        rc = device_card(other, &card);
    if (rc == NVML_SUCCESS)
        *same = device == other;
    return rc;
}
