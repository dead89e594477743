/* Memory of graphs' alloc nodes: one pool a device, apart from the stream-ordered ones.
 *
 * Reserved memory stays with the device after the frees ran, for the next launch, until
 * cuDeviceGraphMemTrim gives the unused part back. Addresses are held by the nodes of a graph
 * and of its executable copy; the memory of a launch outlives both, until it is freed. */
#include <stdlib.h>
#include <sys/mman.h>

#include "api.h"

struct node {
    struct node *next;
    uint64_t base, bytes;
    CUdevice device;
    unsigned holders; /* alloc nodes with this address */
    bool taken;
};
static struct node *nodes;

enum { USED, USED_HIGH, RESERVED, RESERVED_HIGH, ATTRIBUTES };
static uint64_t figures[SIM_CARDS_MAX][ATTRIBUTES];

static struct node *find(uint64_t address) {
    struct node *node = nodes;
    while (node && node->base != address)
        node = node->next;
    return node;
}

CUresult graph_memory_node(CUdevice device, uint64_t bytes, uint64_t *address) {
    if (!bytes || bytes > UINT64_MAX / 2)
        return CUDA_ERROR_INVALID_VALUE;
    struct node *node = calloc(1, sizeof *node);
    void *at = node ? heap_map(heap_charge_bytes(bytes), false) : NULL;
    if (!at) {
        free(node);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *node = (struct node){.next = nodes,
                          .base = (uint64_t)(uintptr_t)at,
                          .bytes = bytes,
                          .device = device,
                          .holders = 1};
    nodes = node;
    *address = node->base;
    return CUDA_SUCCESS;
}

void graph_memory_hold(uint64_t address) {
    struct node *node = find(address);
    if (node)
        node->holders++;
}

static void end_if_unused(struct node *node) {
    if (node->holders || node->taken)
        return;
    struct node **link = &nodes;
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    munmap((void *)(uintptr_t)node->base, heap_charge_bytes(node->bytes));
    free(node);
}

static void raise_mark(uint64_t *mark, uint64_t value) { *mark = value > *mark ? value : *mark; }

/* Takes memory of the card beyond the reserve of the device's graphs. */
static bool reserve(CUdevice device, uint64_t bytes) {
    uint64_t *figure = figures[device];
    uint64_t spare = figure[RESERVED] - figure[USED];
    uint64_t more = bytes > spare ? bytes - spare : 0;
    if (more && !sim_memory_take(driver.state, driver.client, driver.cards[device], more))
        return false;
    figure[RESERVED] += more;
    figure[USED] += bytes;
    raise_mark(&figure[RESERVED_HIGH], figure[RESERVED]);
    raise_mark(&figure[USED_HIGH], figure[USED]);
    return true;
}

CUresult graph_memory_take(uint64_t address) {
    struct node *node = find(address);
    if (!node || node->taken)
        return CUDA_ERROR_INVALID_VALUE; /* launched again before the first one was freed */
    struct memory memory = {
        .base = node->base, .bytes = node->bytes, .kind = MEMORY_GRAPH, .device = node->device};
    if (!reserve(node->device, heap_charge_bytes(node->bytes)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->taken = memory_add(&memory);
    if (!node->taken)
        figures[node->device][USED] -= heap_charge_bytes(node->bytes);
    return node->taken ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult graph_memory_give(uint64_t address) {
    struct node *node = find(address);
    if (!node || !node->taken)
        return CUDA_ERROR_INVALID_VALUE;
    memory_remove(node->base);
    figures[node->device][USED] -= heap_charge_bytes(node->bytes);
    node->taken = false;
    end_if_unused(node);
    return CUDA_SUCCESS;
}

void graph_memory_drop(uint64_t address) {
    struct node *node = find(address);
    if (!node)
        return;
    node->holders--;
    end_if_unused(node);
}

bool graph_memory_is_node(uint64_t address) { return find(address) != NULL; }

bool graph_memory_is_taken(uint64_t address) {
    const struct node *node = find(address);
    return node && node->taken;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!value || attribute < 0 || attribute >= ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    *(uint64_t *)value = figures[device][attribute];
    pthread_mutex_unlock(&driver.lock);
    return CUDA_SUCCESS;
}

/* Only high marks can be set, and only to 0: they become the present figure. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void *value) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!value || (attribute != USED_HIGH && attribute != RESERVED_HIGH) || *(uint64_t *)value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    figures[device][attribute] = figures[device][attribute - 1];
    pthread_mutex_unlock(&driver.lock);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    uint64_t spare = figures[device][RESERVED] - figures[device][USED];
    if (spare)
        sim_memory_give(driver.state, driver.client, card, spare);
    figures[device][RESERVED] -= spare;
    pthread_mutex_unlock(&driver.lock);
    return CUDA_SUCCESS;
}
