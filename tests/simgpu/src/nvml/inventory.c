/* The cards and their names. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api.h"

#define PCI_DEVICE_A100 0x20b210deu /* device 20b2 (A100-SXM4-80GB) of vendor 10de */
#define PCI_SUBSYSTEM_A100 0x147f10deu

nvmlReturn_t device_card(nvmlDevice_t device, struct sim_card **card) {
    nvmlReturn_t rc = session_ready();
    if (rc != NVML_SUCCESS)
        return rc;
    bool ours = device >= session.devices && device < session.devices + SIM_CARDS_MAX;
    if (!ours || !device->visible)
        return NVML_ERROR_INVALID_ARGUMENT;
    *card = &session.state->cards[device->card];
    return (*card)->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t device_check(nvmlDevice_t device, const void *output, struct sim_card **card) {
    nvmlReturn_t rc = device_card(device, card);
    return rc == NVML_SUCCESS && !output ? NVML_ERROR_INVALID_ARGUMENT : rc;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    nvmlReturn_t rc = session_ready();
    if (rc == NVML_SUCCESS && !count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *count = session.count;
    return rc;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

static nvmlReturn_t give_handle(uint32_t card, nvmlDevice_t *device) {
    *device = &session.devices[card];
    return session.state->cards[card].lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    nvmlReturn_t rc = session_ready();
    if (rc != NVML_SUCCESS)
        return rc;
    if (!device || index >= session.count)
        return NVML_ERROR_INVALID_ARGUMENT;
    return give_handle(session.order[index], device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    nvmlReturn_t rc = session_ready();
    if (rc != NVML_SUCCESS)
        return rc;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned index = 0; index < session.count; index++)
        if (strcmp(session.state->cards[session.order[index]].uuid, uuid) == 0)
            return give_handle(session.order[index], device);
    return NVML_ERROR_NOT_FOUND;
}

/* Domains are written with four or with eight digits. */
static bool same_bus(const char *a, const char *b) {
    unsigned left[4], right[4];
    if (sscanf(a, "%x:%x:%x.%x", &left[0], &left[1], &left[2], &left[3]) != 4 ||
        sscanf(b, "%x:%x:%x.%x", &right[0], &right[1], &right[2], &right[3]) != 4)
        return false;
    return memcmp(left, right, sizeof left) == 0;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device) {
    nvmlReturn_t rc = session_ready();
    if (rc != NVML_SUCCESS)
        return rc;
    if (!bus || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned index = 0; index < session.count; index++)
        if (same_bus(session.state->cards[session.order[index]].bus, bus))
            return give_handle(session.order[index], device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByPciBusId_v2(bus, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, out, &card);
    for (unsigned index = 0; rc == NVML_SUCCESS && index < session.count; index++)
        if (session.order[index] == device->card)
            *out = index;
    return rc;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned size) {
    struct sim_card *card;
    nvmlReturn_t rc = device_card(device, &card);
    return rc == NVML_SUCCESS ? copy_text(name, size, card->model) : rc;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned size) {
    struct sim_card *card;
    nvmlReturn_t rc = device_card(device, &card);
    return rc == NVML_SUCCESS ? copy_text(uuid, size, card->uuid) : rc;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, minor, &card);
    if (rc == NVML_SUCCESS)
        *minor = card->minor;
    return rc;
}

void fill_pci(nvmlPciInfo_t *pci, const char *bus) {
    unsigned function = 0;
    memset(pci, 0, sizeof *pci);
    sscanf(bus, "%x:%x:%x.%x", &pci->domain, &pci->bus, &pci->device, &function);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.%X", pci->domain & 0xffff,
             pci->bus & 0xff, pci->device & 0xff, function & 0xf);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.%X", pci->domain, pci->bus, pci->device,
             function);
    pci->pciDeviceId = PCI_DEVICE_A100;
    pci->pciSubSystemId = PCI_SUBSYSTEM_A100;
}

void fill_pci_v2(nvmlPciInfo_v2_t *pci, const char *bus) {
    nvmlPciInfo_t new;
    fill_pci(&new, bus);
    memset(pci, 0, sizeof *pci);
    memcpy(pci->busId, new.busIdLegacy, sizeof pci->busId);
    pci->domain = new.domain;
    pci->bus = new.bus;
    pci->device = new.device;
    pci->pciDeviceId = new.pciDeviceId;
    pci->pciSubSystemId = new.pciSubSystemId;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, pci, &card);
    if (rc == NVML_SUCCESS)
        fill_pci(pci, card->bus);
    return rc;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, pci, &card);
    if (rc == NVML_SUCCESS)
        fill_pci_v2(pci, card->bus);
    return rc;
}
