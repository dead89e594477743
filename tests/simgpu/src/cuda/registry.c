/* Which allocation an address lies in: an array sorted by address. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static struct {
    struct memory *items;
    size_t count, capacity;
} registry;

/* Position of the first allocation that begins after the address. */
static size_t after(uint64_t address) {
    size_t low = 0, high = registry.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (registry.items[middle].base <= address)
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
    struct memory *memory = &registry.items[at - 1];
    return address - memory->base < memory->bytes ? memory : NULL;
}

bool memory_add(const struct memory *memory) {
    if (registry.count == registry.capacity) {
        size_t capacity = registry.capacity ? registry.capacity * 2 : 64;
        struct memory *items = realloc(registry.items, capacity * sizeof *items);
        if (!items)
            return false;
        registry.items = items;
        registry.capacity = capacity;
    }
    size_t at = after(memory->base);
    memmove(&registry.items[at + 1], &registry.items[at],
            (registry.count - at) * sizeof *registry.items);
    registry.items[at] = *memory;
    registry.count++;
    return true;
}

void memory_remove(uint64_t base) {
    size_t at = after(base);
    if (at == 0 || registry.items[at - 1].base != base)
        return;
    registry.count--;
    memmove(&registry.items[at - 1], &registry.items[at],
            (registry.count - at + 1) * sizeof *registry.items);
}

struct memory *memory_of_context(const struct context *context) {
    for (size_t i = 0; i < registry.count; i++)
        if (registry.items[i].context == context)
            return &registry.items[i];
    return NULL;
}
