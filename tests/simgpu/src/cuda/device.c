/* Devices: names, sizes, attributes. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api.h"

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    uint32_t card;
    CUresult rc = device_card(ordinal, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = driver.device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!name || size < 1)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)size, "%s", driver.state->cards[card].model);
    return CUDA_SUCCESS;
}

/* The sixteen bytes that "GPU-xxxxxxxx-xxxx-…" spells. */
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    const char *text = driver.state->cards[card].uuid;
    if (strncmp(text, "GPU-", 4) == 0)
        text += 4;
    memset(uuid, 0, sizeof *uuid);
    for (size_t at = 0; at < sizeof uuid->bytes && text[0] && text[1]; text += 2) {
        unsigned byte;
        if (*text == '-')
            text++;
        if (sscanf(text, "%2x", &byte) != 1)
            break;
        uuid->bytes[at++] = (char)byte;
    }
    return CUDA_SUCCESS;
}

/* Differs from the first form only under MIG. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = driver.state->cards[card].memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(unsigned *bytes, CUdevice device) {
    size_t total;
    CUresult rc = cuDeviceTotalMem_v2(&total, device);
    if (rc == CUDA_SUCCESS && !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned)total;
    return rc;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = (int)driver.state->cards[card].capability_major;
    *minor = (int)driver.state->cards[card].capability_minor;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *bus, int size, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!bus || size < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(bus, (size_t)size, "%s", driver.state->cards[card].bus);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *bus) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!device || !bus)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < driver.device_count; i++)
        if (strcasecmp(driver.state->cards[driver.cards[i]].bus, bus) == 0) {
            *device = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    uint32_t card, other;
    CUresult rc = device_card(device, &card);
    if (rc == CUDA_SUCCESS)
        rc = device_card(peer, &other);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    *can = device != peer && strncmp(driver.state->links[card][other], "NV", 2) == 0;
    return CUDA_SUCCESS;
}

/* Attribute numbers as in CUdevice_attribute; values of an A100 (compute capability 8.0): extents
 * of textures and surfaces (21 to 77) by the programming guide's technical specifications. */
static const struct {
    int attribute, value;
} fixed_attributes[] = {
    {1, 1024},        {2, 1024},     {3, 1024},    {4, 64},       {5, 2147483647},  {6, 65535},
    {7, 65535},       {8, 49152},    {9, 65536},   {10, 32},      {11, 2147483647}, {12, 65536},
    {13, 1410000},    {14, 512},     {15, 1},      {17, 0},       {18, 0},          {19, 1},
    {20, 0},          {21, 131072},  {22, 131072}, {23, 65536},   {24, 16384},      {25, 16384},
    {26, 16384},      {27, 32768},   {28, 32768},  {29, 2048},    {30, 512},        {31, 1},
    {32, 1},          {34, 0},       {35, 0},      {36, 1593000}, {37, 5120},       {38, 41943040},
    {39, 2048},       {40, 3},       {41, 1},      {42, 32768},   {43, 2048},       {45, 32768},
    {46, 32768},      {47, 8192},    {48, 8192},   {49, 32768},   {51, 32},         {52, 32768},
    {53, 32768},      {54, 2046},    {55, 32768},  {56, 131072},  {57, 65536},      {58, 16384},
    {59, 16384},      {60, 16384},   {61, 32768},  {62, 2048},    {63, 32768},      {64, 32768},
    {65, 2048},       {66, 32768},   {67, 32768},  {68, 2046},    {69, 268435456},  {70, 131072},
    {71, 65000},      {72, 2097120}, {73, 32768},  {74, 32768},   {77, 32768},      {78, 1},
    {79, 1},          {80, 1},       {81, 167936}, {82, 65536},   {83, 1},          {84, 0},
    {85, 0},          {86, 0},       {87, 2},      {88, 0},       {89, 1},          {90, 1},
    {91, 1},          {92, 0},       {93, 0},      {94, 0},       {95, 1},          {96, 1},
    {97, 166912},     {98, 0},       {99, 1},      {100, 0},      {101, 0},         {102, 1},
    {103, 1},         {104, 0},      {105, 0},     {106, 32},     {107, 0},         {108, 31457280},
    {109, 134213632}, {110, 0},      {111, 1024},  {112, 1},      {113, 0},         {114, 0},
    {115, 1},         {116, 0},      {117, 0},     {118, 0},      {119, 1},         {120, 0},
    {121, 1},         {122, 0},      {123, 0},     {124, 0},      {125, 1},         {126, 1},
    {127, 0},         {129, 0},      {132, 0},
};

static int described_attribute(int attribute, const struct sim_card *card, int *value) {
    unsigned domain = 0, bus = 0, slot = 0;
    sscanf(card->bus, "%x:%x:%x", &domain, &bus, &slot);
    const struct {
        int attribute, value;
    } described[] = {{16, (int)card->sms},
                     {33, (int)bus},
                     {34, (int)slot},
                     {50, (int)domain},
                     {75, (int)card->capability_major},
                     {76, (int)card->capability_minor}};
    for (size_t i = 0; i < sizeof described / sizeof described[0]; i++)
        if (described[i].attribute == attribute) {
            *value = described[i].value;
            return 1;
        }
    return 0;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!value || attribute < 1 || attribute > 134)
        return CUDA_ERROR_INVALID_VALUE;
    if (described_attribute(attribute, &driver.state->cards[card], value))
        return CUDA_SUCCESS;
    *value = 0; /* the card has none of it */
    for (size_t i = 0; i < sizeof fixed_attributes / sizeof fixed_attributes[0]; i++)
        if (fixed_attributes[i].attribute == attribute)
            *value = fixed_attributes[i].value;
    return CUDA_SUCCESS;
}
