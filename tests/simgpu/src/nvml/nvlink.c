/* NVLinks, from the matrix's NV<n>.
 *
 * Links are numbered by partner, in the order of the cards. Where the partners together would need
 * more than a card's 18 links, all of them go to a switch, as on boards with NVSwitch. */
#include <stdio.h>
#include <string.h>

#include "api.h"

#define LINKS_MAX 18
#define SWITCH_BUS "0000:C3:00.0"
#define REMOTE_GPU 0u
#define REMOTE_SWITCH 2u

static unsigned links_between(uint32_t a, uint32_t b) {
    unsigned count = 0;
    return sscanf(session.state->links[a][b], "NV%u", &count) == 1 ? count : 0;
}

struct remote {
    const char *bus; /* NULL: no such link */
    unsigned type;
};

static struct remote remote_of(uint32_t card, unsigned link) {
    unsigned sum = 0, most = 0;
    for (uint32_t other = 0; other < session.state->card_count; other++) {
        unsigned count = links_between(card, other);
        sum += count;
        most = count > most ? count : most;
    }
    if (sum > LINKS_MAX)
        return (struct remote){link < most ? SWITCH_BUS : NULL, REMOTE_SWITCH};
    unsigned first = 0;
    for (uint32_t other = 0; other < session.state->card_count; other++) {
        first += links_between(card, other);
        if (link < first)
            return (struct remote){session.state->cards[other].bus, REMOTE_GPU};
    }
    return (struct remote){NULL, REMOTE_GPU};
}

/* NOT_SUPPORTED for a link that this card has not, as the real NVML says. */
static nvmlReturn_t find(nvmlDevice_t device, unsigned link, const void *output,
                         struct remote *remote) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, output, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    if (link >= LINKS_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    *remote = remote_of(device->card, link);
    return remote->bus ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *active) {
    struct remote remote;
    nvmlReturn_t rc = find(device, link, active, &remote);
    if (rc == NVML_SUCCESS)
        *active = 1;
    return rc;
}

/* Generation 3, the A100's. */
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version) {
    struct remote remote;
    nvmlReturn_t rc = find(device, link, version, &remote);
    if (rc == NVML_SUCCESS)
        *version = 3;
    return rc;
}

/* Peer access, system memory, both atomics, no SLI, valid. */
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, unsigned capability,
                                           unsigned *result) {
    static const unsigned capabilities[] = {1, 1, 1, 1, 0, 1};
    struct remote remote;
    nvmlReturn_t rc = find(device, link, result, &remote);
    if (rc == NVML_SUCCESS && capability >= sizeof capabilities / sizeof capabilities[0])
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *result = capabilities[capability];
    return rc;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                 nvmlPciInfo_t *pci) {
    struct remote remote;
    nvmlReturn_t rc = find(device, link, pci, &remote);
    if (rc == NVML_SUCCESS)
        fill_pci(pci, remote.bus);
    return rc;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned link,
                                              nvmlPciInfo_v2_t *pci) {
    struct remote remote;
    nvmlReturn_t rc = find(device, link, pci, &remote);
    if (rc == NVML_SUCCESS)
        fill_pci_v2(pci, remote.bus);
    return rc;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link,
                                                 unsigned *type) {
    struct remote remote;
    nvmlReturn_t rc = find(device, link, type, &remote);
    if (rc == NVML_SUCCESS)
        *type = remote.type;
    return rc;
}
