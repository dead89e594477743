/*
 * The same view for programs that ask NVML, nvidia-smi among them. Closed without limits. The
 * card's own reservation is left out: used and free add up to the tenant's share, so that NVML and
 * cuMemGetInfo agree.
 */
#include "hooks/nvml/hooks_nvml.h"

#include "memory/account.h"

static int digit_value(char digit) {
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* "GPU-" and 32 hexadecimal digits, with dashes anywhere. */
static bool parse_uuid(const char *text, CUuuid *uuid) {
    unsigned digits = 0;
    *uuid = (CUuuid){.bytes = {0}};
    while (*text != '\0' && *text != '-') {
        text++;
    }
    for (; *text != '\0'; text++) {
        int value = digit_value(*text);
        if (*text == '-') {
            continue;
        }
        if (value < 0 || digits == 2 * sizeof uuid->bytes) {
            return false;
        }
        uint8_t *byte = &uuid->bytes[digits++ / 2];
        *byte = (uint8_t)(*byte << 4 | value);
    }
    return digits == 2 * sizeof uuid->bytes;
}

nvmlReturn_t nvml_uuid(struct driver *driver, nvmlDevice_t device, CUuuid *uuid) {
    nvmlDeviceGetUUID_fn *get = REAL(driver, nvmlDeviceGetUUID);
    char text[NVML_UUID_CHARS];
    if (get == NULL) {
        return NVML_ERROR_NO_PERMISSION;
    }
    nvmlReturn_t result = get(device, text, sizeof text);
    if (result == NVML_SUCCESS && !parse_uuid(text, uuid)) {
        return NVML_ERROR_NO_PERMISSION;
    }
    return result;
}

nvmlReturn_t nvml_check_struct(struct driver *driver, nvmlDevice_t device,
                               const unsigned int *version) {
    CUuuid uuid;
    nvmlReturn_t result = nvml_uuid(driver, device, &uuid); /* before a look at the arguments */
    if (result == NVML_SUCCESS && version == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (result == NVML_SUCCESS && NVML_VERSION_BYTES(*version) > NVML_STRUCT_ROOM) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    return result;
}

nvmlReturn_t nvml_refuse(struct driver *driver) {
    nvmlDeviceGetCount_v2_fn *ask = REAL(driver, nvmlDeviceGetCount_v2);
    unsigned int count;
    nvmlReturn_t asked = ask == NULL ? NVML_SUCCESS : ask(&count);
    return asked == NVML_SUCCESS ? NVML_ERROR_NO_PERMISSION : asked;
}

static nvmlReturn_t view_of(struct driver *driver, nvmlDevice_t device, uint64_t card_bytes,
                            struct view *view) {
    CUuuid uuid;
    nvmlReturn_t result = nvml_uuid(driver, device, &uuid);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (account_view(&uuid, view) != CUDA_SUCCESS) {
        return NVML_ERROR_NO_PERMISSION;
    }
    if (view->share_bytes > card_bytes) {
        view->share_bytes = card_bytes;
    }
    if (view->used_bytes > view->share_bytes) {
        view->used_bytes = view->share_bytes;
    }
    return NVML_SUCCESS;
}

/* A refused call shows no figure of the card. */
nvmlReturn_t gate_nvmlDeviceGetMemoryInfo(struct driver *driver, nvmlDevice_t device,
                                          nvmlMemory_t *memory) {
    nvmlMemory_t card = {.total = 0};
    struct view view;
    nvmlReturn_t result =
        REAL(driver, nvmlDeviceGetMemoryInfo)(device, memory == NULL ? NULL : &card);
    if (result == NVML_SUCCESS) {
        result = view_of(driver, device, card.total, &view);
    }
    if (result == NVML_SUCCESS) {
        memory->total = view.share_bytes;
        memory->used = view.used_bytes;
        memory->free = view.share_bytes - view.used_bytes;
    }
    return result;
}

nvmlReturn_t gate_nvmlDeviceGetMemoryInfo_v2(struct driver *driver, nvmlDevice_t device,
                                             nvmlMemory_v2_t *memory) {
    union {
        nvmlMemory_v2_t memory;
        unsigned char room[NVML_STRUCT_ROOM];
    } card = {.room = {0}};
    struct view view;
    nvmlReturn_t result =
        nvml_check_struct(driver, device, memory == NULL ? NULL : &memory->version);
    if (result == NVML_SUCCESS) {
        card.memory.version = memory->version;
        result = REAL(driver, nvmlDeviceGetMemoryInfo_v2)(device, &card.memory);
    }
    if (result == NVML_SUCCESS) {
        result = view_of(driver, device, card.memory.total, &view);
    }
    if (result == NVML_SUCCESS) {
        memory->total = view.share_bytes;
        memory->reserved = 0;
        memory->used = view.used_bytes;
        memory->free = view.share_bytes - view.used_bytes;
    }
    return result;
}
