/* A card's identity: the getters of fields.def with constant values. */
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

#include "fields.h"

#define LENGTH(list) (sizeof(list) / sizeof(list)[0])

/* A getter of text, and one of a plain number. */
#define TEXT(name, call)                                                                           \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        return ASK(call, gpu->device, text, TEXT_CHARS);                                           \
    }
#define NUMBER(name, call)                                                                         \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        unsigned value = 0;                                                                        \
        nvmlReturn_t rc = ASK(call, gpu->device, &value);                                          \
        return put_number(rc, text, "%llu", value);                                                \
    }
#define WORD(name, call, ...)                                                                      \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        static const char *const words[] = {__VA_ARGS__};                                          \
        unsigned value = 0;                                                                        \
        nvmlReturn_t rc = ASK(call, gpu->device, &value);                                          \
        return put_word(rc, text, words, LENGTH(words), value);                                    \
    }
#define PCI(name, format, member)                                                                  \
    nvmlReturn_t get_##name(const struct gpu *gpu, char *text) {                                   \
        nvmlPciInfo_t pci = {.domain = 0};                                                         \
        nvmlReturn_t rc = ASK(nvmlDeviceGetPciInfo_v3, gpu->device, &pci);                         \
        return put_number(rc, text, format, pci.member);                                           \
    }

TEXT(name, nvmlDeviceGetName)
TEXT(serial, nvmlDeviceGetSerial)
TEXT(uuid, nvmlDeviceGetUUID)
TEXT(vbios_version, nvmlDeviceGetVbiosVersion)
NUMBER(minor, nvmlDeviceGetMinorNumber)
NUMBER(link_generation, nvmlDeviceGetCurrPcieLinkGeneration)
NUMBER(link_generation_max, nvmlDeviceGetMaxPcieLinkGeneration)
NUMBER(link_width, nvmlDeviceGetCurrPcieLinkWidth)
NUMBER(link_width_max, nvmlDeviceGetMaxPcieLinkWidth)
PCI(pci_domain, "0x%04llX", domain)
PCI(pci_bus, "0x%02llX", bus)
PCI(pci_device, "0x%02llX", device)
PCI(pci_device_id, "0x%08llX", pciDeviceId)
PCI(pci_sub_device_id, "0x%08llX", pciSubSystemId)
WORD(multi_gpu_board, nvmlDeviceGetMultiGpuBoard, "No", "Yes")
WORD(virtualization, nvmlDeviceGetVirtualizationMode, "None", "Pass-Through", "VGPU", "Host VGPU",
     "Host VSGA")
WORD(brand, nvmlDeviceGetBrand, "Unknown", "Quadro", "Tesla", "NVS", "GRID", "GeForce", "Titan",
     "vApps", "vPC", "vCS", "vWS", "Cloud Gaming", "Quadro RTX", "NVIDIA RTX", "NVIDIA",
     "GeForce RTX", "Titan RTX")
WORD(architecture, nvmlDeviceGetArchitecture, "Unknown", "Unknown", "Kepler", "Maxwell", "Pascal",
     "Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper")

nvmlReturn_t get_pci_bus_id(const struct gpu *gpu, char *text) {
    nvmlPciInfo_t pci;
    nvmlReturn_t rc = ASK(nvmlDeviceGetPciInfo_v3, gpu->device, &pci);
    if (rc == NVML_SUCCESS)
        snprintf(text, TEXT_CHARS, "%s", pci.busId);
    return rc;
}

nvmlReturn_t get_compute_cap(const struct gpu *gpu, char *text) {
    int major = 0, minor = 0;
    nvmlReturn_t rc = ASK(nvmlDeviceGetCudaComputeCapability, gpu->device, &major, &minor);
    if (rc == NVML_SUCCESS)
        snprintf(text, TEXT_CHARS, "%d.%d", major, minor);
    return rc;
}

nvmlReturn_t get_driver_version(const struct gpu *gpu, char *text) {
    (void)gpu;
    return ASK(nvmlSystemGetDriverVersion, text, TEXT_CHARS);
}

nvmlReturn_t get_count(const struct gpu *gpu, char *text) {
    unsigned count = 0;
    (void)gpu;
    nvmlReturn_t rc = ASK(nvmlDeviceGetCount_v2, &count);
    return put_number(rc, text, "%llu", count);
}

nvmlReturn_t get_index(const struct gpu *gpu, char *text) {
    return put_number(NVML_SUCCESS, text, "%llu", gpu->index);
}

nvmlReturn_t get_timestamp(const struct gpu *gpu, char *text) {
    struct timeval now;
    struct tm local;
    (void)gpu;
    gettimeofday(&now, NULL);
    size_t chars =
        strftime(text, TEXT_CHARS, "%Y/%m/%d %H:%M:%S", localtime_r(&now.tv_sec, &local));
    snprintf(text + chars, TEXT_CHARS - chars, ".%03ld", (long)now.tv_usec / 1000);
    return NVML_SUCCESS;
}
