/* The allocation of an address: an array of allocations, sorted by address. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static struct {
    struct memory **items;
    size_t count, capacity;
    uint64_t last_id;
} registry;

/* Position of the first allocation that begins after the address. */
static size_t after(uint64_t address) {
    size_t low = 0, high = registry.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (registry.items[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct memory *memory_find(uint64_t address) {
    size_t at = after(address);
    if (at == 0)
        return NULL;
    struct memory *memory = registry.items[at - 1];
    return address - memory->base < memory->bytes ? memory : NULL;
}

struct memory *memory_in(uint64_t base, uint64_t bytes) {
    struct memory *memory = memory_find(base);
    size_t next = after(base);
    if (!memory && next < registry.count && registry.items[next]->base - base < bytes)
        memory = registry.items[next];
    return memory;
}

struct memory *memory_after(const struct memory *memory) {
    size_t next = after(memory->base);
    return next < registry.count ? registry.items[next] : NULL;
}

static bool grow(void) {
    if (registry.count < registry.capacity)
        return true;
    size_t capacity = registry.capacity ? registry.capacity * 2 : 64;
    struct memory **items = realloc(registry.items, capacity * sizeof(struct memory *));
    if (!items)
        return false;
    registry.items = items;
    registry.capacity = capacity;
    return true;
}

bool memory_add(const struct memory *memory) {
    struct memory *item = malloc(sizeof *item);
    if (!item || !grow()) {
        free(item);
        return false;
    }
    *item = *memory;
    item->id = ++registry.last_id;
    size_t at = after(memory->base);
    memmove(&registry.items[at + 1], &registry.items[at],
            (registry.count - at) * sizeof(struct memory *));
    registry.items[at] = item;
    registry.count++;
    return true;
}

void memory_remove(uint64_t base) {
    size_t at = after(base);
    if (at == 0 || registry.items[at - 1]->base != base)
        return;
    free(registry.items[at - 1]);
    registry.count--;
    memmove(&registry.items[at - 1], &registry.items[at],
            (registry.count - at + 1) * sizeof(struct memory *));
}

struct memory *memory_of_context(const struct context *context) {
    for (size_t i = 0; i < registry.count; i++)
        if (registry.items[i]->context == context)
            return registry.items[i];
    return NULL;
}

/* A mapping can be read and written once any device was given access. */
static bool is_accessible(const struct memory *memory) {
    bool any = memory->kind != MEMORY_VIRTUAL;
    for (int i = 0; i <= SIM_CARDS_MAX; i++)
        any = any || memory->access[i];
    return any;
}

bool memory_spans(uint64_t address, uint64_t bytes) {
    const struct memory *memory = memory_find(address);
    while (memory && is_accessible(memory)) {
        uint64_t left = memory->base + memory->bytes - address;
        if (bytes <= left)
            return true;
        if (memory->kind != MEMORY_VIRTUAL)
            return false;
        bytes -= left;
        address += left;
        memory = memory_find(address);
        if (memory && memory->kind != MEMORY_VIRTUAL)
            return false;
    }
    return false;
}

uint64_t memory_kept_bytes(uint64_t address, uint64_t bytes) {
    const struct memory *memory = memory_find(address);
    uint64_t offset = address - memory->base;
    uint64_t left = offset < CONTENT_BYTES ? CONTENT_BYTES - offset : 0;
    return memory->kind >= MEMORY_HOST || left > bytes ? bytes : left;
}
