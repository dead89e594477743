/* Device memory, taken from the card in granules of 2 MiB.
 *
 * A request of up to 1 MiB shares a granule with others of its context, in units of 512 bytes;
 * a larger one gets granules of its own. That is how cudaMalloc behaves on Volta and later, seen
 * through cudaMemGetInfo: small requests cost nothing until 2 MiB are full, 1 MiB + 1 costs 2.
 *
 * An address is host memory that nobody has touched: no page behind it until something is copied
 * there. So contents survive a round trip, and 80 GiB cost nothing. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

#define UNITS (GRANULE_BYTES / UNIT_BYTES)

struct granule {
    struct granule *next;
    uint64_t base;
    unsigned used_units;
    unsigned char taken[UNITS];
};

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return bytes > UINT64_MAX - unit ? UINT64_MAX : (bytes + unit - 1) / unit * unit;
}

uint64_t heap_charge_bytes(uint64_t bytes) { return round_up(bytes, GRANULE_BYTES); }

/* MAP_32BIT: the first interface's addresses have 32 bits. */
void *heap_map(uint64_t bytes, bool low) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#ifdef MAP_32BIT
    flags |= low ? MAP_32BIT : 0;
#else
    (void)low;
#endif
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static uint64_t take_granules(struct context *context, uint64_t bytes, bool low) {
    if (!sim_memory_take(driver.state, driver.client, context->card, bytes))
        return 0;
    void *at = heap_map(bytes, low);
    if (!at) {
        sim_memory_give(driver.state, driver.client, context->card, bytes);
        return 0;
    }
    return (uint64_t)(uintptr_t)at;
}

static void give_granules(struct context *context, uint64_t base, uint64_t bytes) {
    munmap((void *)(uintptr_t)base, bytes);
    sim_memory_give(driver.state, driver.client, context->card, bytes);
}

/* First run of free units in the granule, or UNITS. */
static unsigned find_run(const struct granule *granule, unsigned wanted) {
    unsigned run = 0;
    if (granule->used_units + wanted > UNITS)
        return UNITS;
    for (unsigned unit = 0; unit < UNITS; unit++) {
        run = granule->taken[unit] ? 0 : run + 1;
        if (run == wanted)
            return unit + 1 - wanted;
    }
    return UNITS;
}

static struct granule *new_granule(struct context *context) {
    struct granule *granule = calloc(1, sizeof *granule);
    uint64_t base = granule ? take_granules(context, GRANULE_BYTES, false) : 0;
    if (!base) {
        free(granule);
        return NULL;
    }
    granule->base = base;
    granule->next = context->granules;
    context->granules = granule;
    return granule;
}

static bool allocate_small(struct context *context, struct memory *memory) {
    unsigned wanted = (unsigned)(round_up(memory->bytes, UNIT_BYTES) / UNIT_BYTES);
    struct granule *granule = context->granules;
    unsigned unit = UNITS;
    while (granule && (unit = find_run(granule, wanted)) == UNITS)
        granule = granule->next;
    if (!granule) {
        granule = new_granule(context);
        unit = 0;
    }
    if (!granule)
        return false;
    memset(&granule->taken[unit], 1, wanted);
    granule->used_units += wanted;
    memory->base = granule->base + unit * UNIT_BYTES;
    memory->granule = granule;
    return true;
}

static void free_small(const struct memory *memory) {
    struct granule *granule = memory->granule, **link = &memory->context->granules;
    unsigned unit = (unsigned)((memory->base - granule->base) / UNIT_BYTES);
    unsigned count = (unsigned)(round_up(memory->bytes, UNIT_BYTES) / UNIT_BYTES);
    memset(&granule->taken[unit], 0, count);
    granule->used_units -= count;
    if (granule->used_units)
        return;
    while (*link != granule)
        link = &(*link)->next;
    *link = granule->next;
    give_granules(memory->context, granule->base, GRANULE_BYTES);
    free(granule);
}

CUresult heap_allocate(struct context *context, uint64_t bytes, enum memory_kind kind, bool low,
                       uint64_t *address) {
    struct memory memory = {.bytes = bytes, .kind = kind, .context = context};
    bool ok = false;
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    if (bytes <= SMALL_BYTES && !low && kind != MEMORY_MANAGED)
        ok = allocate_small(context, &memory);
    else
        ok = (memory.base = take_granules(context, heap_charge_bytes(bytes), low)) != 0;
    if (ok && !memory_add(&memory)) {
        if (memory.granule)
            free_small(&memory);
        else
            give_granules(context, memory.base, heap_charge_bytes(bytes));
        ok = false;
    }
    if (ok && kind == MEMORY_POOL)
        pool_account(context->device, bytes, true);
    pthread_mutex_unlock(&driver.lock);
    *address = ok ? memory.base : *address;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void release(struct memory memory) {
    memory_remove(memory.base);
    if (memory.kind == MEMORY_POOL)
        pool_account(memory.context->device, memory.bytes, false);
    if (memory.granule)
        free_small(&memory);
    else
        give_granules(memory.context, memory.base, heap_charge_bytes(memory.bytes));
}

CUresult heap_free(uint64_t address) {
    pthread_mutex_lock(&driver.lock);
    struct memory *memory = memory_find(address);
    bool ours = memory && memory->base == address && memory->kind <= MEMORY_POOL;
    if (ours)
        release(*memory);
    pthread_mutex_unlock(&driver.lock);
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void heap_drop(struct context *context) {
    struct memory *memory;
    while ((memory = memory_of_context(context)))
        release(*memory);
}
