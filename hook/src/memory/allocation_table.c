/* Open addressing with linear probing, at most half full; deletion shifts back, so no tombstones.
 */
#include "memory/allocation_table.h"

#include <sys/mman.h>

#include "shared/sys.h"

enum { FIRST_CAPACITY = 1024 };

static size_t place_of(const struct allocation_table *table, enum allocation_kind kind,
                       uint64_t key) {
    /* Handles and pointers differ in a few bits only; Fibonacci hashing spreads them. */
    uint64_t mixed = (key ^ (uint64_t)kind << 56) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (table->capacity - 1);
}

/* The record's place, or the free one where it would stand. */
static struct allocation *look_up(const struct allocation_table *table, enum allocation_kind kind,
                                  uint64_t key) {
    size_t place = place_of(table, kind, key);
    const struct allocation *places = table->places;
    while (places[place].kind != ALLOCATION_NONE &&
           (places[place].kind != kind || places[place].key != key)) {
        place = (place + 1) & (table->capacity - 1);
    }
    return &table->places[place];
}

static bool grow(struct allocation_table *table, size_t capacity) {
    size_t size = capacity * sizeof(struct allocation);
    void *memory = sys_map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (memory == NULL) {
        return false;
    }
    sys_advise(memory, size, MADV_DONTFORK); /* a child would only carry it along */
    struct allocation_table grown = {.places = memory, .capacity = capacity};
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->places[i].kind != ALLOCATION_NONE) {
            allocation_table_put(&grown, table->places[i]);
        }
    }
    if (table->places != NULL) {
        sys_unmap(table->places, table->capacity * sizeof(struct allocation));
    }
    *table = grown;
    return true;
}

bool allocation_table_reserve(struct allocation_table *table, size_t extra) {
    size_t capacity = table->capacity == 0 ? FIRST_CAPACITY : table->capacity;
    while ((table->count + extra) * 2 > capacity) {
        capacity *= 2;
    }
    return capacity == table->capacity || grow(table, capacity);
}

void allocation_table_put(struct allocation_table *table, struct allocation record) {
    struct allocation *place = look_up(table, record.kind, record.key);
    table->count += place->kind == ALLOCATION_NONE;
    *place = record;
}

struct allocation *allocation_table_find(const struct allocation_table *table,
                                         enum allocation_kind kind, uint64_t key) {
    struct allocation *place = table->count == 0 ? NULL : look_up(table, kind, key);
    return place == NULL || place->kind == ALLOCATION_NONE ? NULL : place;
}

/* Closes the gap at `place`: moves up each later record that probing would now no longer reach. */
static void close_gap(struct allocation_table *table, size_t place) {
    size_t mask = table->capacity - 1;
    for (size_t next = (place + 1) & mask; table->places[next].kind != ALLOCATION_NONE;
         next = (next + 1) & mask) {
        const struct allocation *record = &table->places[next];
        size_t home = place_of(table, record->kind, record->key);
        if (((next - home) & mask) >= ((next - place) & mask)) {
            table->places[place] = *record;
            place = next;
        }
    }
    table->places[place].kind = ALLOCATION_NONE;
    table->count--;
}

bool allocation_table_take(struct allocation_table *table, enum allocation_kind kind, uint64_t key,
                           struct allocation *record) {
    struct allocation *place = allocation_table_find(table, kind, key);
    if (place == NULL) {
        return false;
    }
    *record = *place;
    close_gap(table, (size_t)(place - table->places));
    return true;
}

void allocation_table_drop_context(struct allocation_table *table, uint32_t context) {
    for (size_t i = 0; i < table->capacity;) {
        struct allocation *place = &table->places[i];
        if (place->kind != ALLOCATION_NONE && place->kind <= ALLOCATION_LAST_OF_CONTEXT &&
            place->owner == context) {
            close_gap(table, i); /* another one may stand here now */
        } else {
            i++;
        }
    }
}
