/* Device memory, taken from the card in granules of 2 MiB.
 *
 * A request of up to 1 MiB shares a granule with others of its context, in units of 512 bytes;
 * a larger one gets granules of its own. That is how cudaMalloc behaves on Volta and later, seen
 * through cudaMemGetInfo: small requests cost nothing until 2 MiB are full, 1 MiB + 1 costs 2.
 *
 * An address is untouched host memory: it has no page until a copy writes there. So contents
 * survive a round trip, and 80 GiB cost nothing. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "state/objects.h"

#define UNITS (GRANULE_BYTES / UNIT_BYTES)

struct granule {
    struct granule *next;
    uint64_t base;
    uint64_t object; /* object of the granule after an export of its memory; 0: none */
    unsigned used_units;
    unsigned char taken[UNITS];
};

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

static void give_granules(struct context *context, uint64_t base, uint64_t bytes, uint64_t object) {
    munmap((void *)(uintptr_t)base, bytes);
    if (object)
        sim_object_drop(driver.state, driver.client, object);
    else
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
    give_granules(memory->context, granule->base, GRANULE_BYTES, granule->object);
    free(granule);
}

bool heap_take(struct memory *memory, bool low) {
    if (memory->bytes <= SMALL_BYTES && !low && memory->kind != MEMORY_MANAGED)
        return allocate_small(memory->context, memory);
    memory->base = take_granules(memory->context, heap_charge_bytes(memory->bytes), low);
    return memory->base;
}

void heap_give(const struct memory *memory) {
    if (memory->granule)
        free_small(memory);
    else
        give_granules(memory->context, memory->base, heap_charge_bytes(memory->bytes),
                      memory->object);
}

CUresult heap_allocate(struct context *context, uint64_t bytes, enum memory_kind kind, bool low,
                       uint64_t *address) {
    struct memory memory = {
        .bytes = bytes, .kind = kind, .context = context, .device = context->device};
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    bool ok = heap_take(&memory, low);
    if (ok && !memory_add(&memory)) {
        heap_give(&memory);
        ok = false;
    }
    pthread_mutex_unlock(&driver.lock);
    *address = ok ? memory.base : *address;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void heap_free(struct memory memory) {
    memory_remove(memory.base);
    heap_give(&memory);
}

/* Memory of other processes goes with the context that opened it. */
void heap_drop(struct context *context) {
    struct memory *memory;
    while ((memory = memory_of_context(context)))
        if (memory->backing)
            backing_hide(*memory);
        else
            heap_free(*memory);
}

/* Moves the contents into the object's file and shows that at the same address. Pages of zeros
 * stay holes. */
static bool show_object(uint64_t object, uint64_t base, uint64_t bytes) {
    static const char zeros[4096];
    int fd = sim_object_open(object, false);
    uint64_t kept = bytes < CONTENT_BYTES ? bytes : CONTENT_BYTES;
    bool ok = fd >= 0;
    for (uint64_t at = 0; ok && at < kept; at += sizeof zeros) {
        const char *page = (const char *)(uintptr_t)(base + at);
        if (memcmp(page, zeros, sizeof zeros) != 0)
            ok = pwrite(fd, page, sizeof zeros, (off_t)at) == sizeof zeros;
    }
    ok = ok && mmap((void *)(uintptr_t)base, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) != MAP_FAILED;
    if (fd >= 0)
        close(fd);
    return ok;
}

uint64_t heap_share(struct memory *memory, uint64_t *block_base, uint64_t *block_bytes) {
    uint64_t *object = memory->granule ? &memory->granule->object : &memory->object;
    uint32_t card = memory->context->card;
    *block_base = memory->granule ? memory->granule->base : memory->base;
    *block_bytes = memory->granule ? GRANULE_BYTES : heap_charge_bytes(memory->bytes);
    if (*object)
        return *object;
    uint64_t made = sim_object_make(driver.state, driver.client, card, *block_bytes, *block_bytes);
    if (made && show_object(made, *block_base, *block_bytes))
        *object = made;
    else if (made) {
        sim_object_drop(driver.state, driver.client, made);
        sim_memory_take(driver.state, driver.client, card, *block_bytes);
    }
    return *object;
}
