/* Open addressing with linear probing, at most half full; deletion shifts back, so no tombstones.
 */
#include "memory/allocation_table.h"

#include <sys/mman.h>

enum { FIRST_CAPACITY = 1024 };

static size_t place_of(const struct records *records, enum record_kind kind, uint64_t key) {
    /* Handles and pointers differ in a few bits only; Fibonacci hashing spreads them. */
    uint64_t mixed = (key ^ (uint64_t)kind << 56) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (records->capacity - 1);
}

/* The record's place, or the free one where it would stand. */
static struct record *look_up(const struct records *records, enum record_kind kind, uint64_t key) {
    size_t place = place_of(records, kind, key);
    const struct record *places = records->places;
    while (places[place].kind != RECORD_NONE &&
           (places[place].kind != kind || places[place].key != key)) {
        place = (place + 1) & (records->capacity - 1);
    }
    return &records->places[place];
}

static bool grow(struct records *records, size_t capacity) {
    size_t size = capacity * sizeof(struct record);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    madvise(memory, size, MADV_DONTFORK); /* a child would only carry it along */
    struct records grown = {.places = memory, .capacity = capacity};
    for (size_t i = 0; i < records->capacity; i++) {
        if (records->places[i].kind != RECORD_NONE) {
            records_put(&grown, records->places[i]);
        }
    }
    if (records->places != NULL) {
        munmap(records->places, records->capacity * sizeof(struct record));
    }
    *records = grown;
    return true;
}

bool records_reserve(struct records *records, size_t extra) {
    size_t capacity = records->capacity == 0 ? FIRST_CAPACITY : records->capacity;
    while ((records->count + extra) * 2 > capacity) {
        capacity *= 2;
    }
    return capacity == records->capacity || grow(records, capacity);
}

void records_put(struct records *records, struct record record) {
    struct record *place = look_up(records, record.kind, record.key);
    records->count += place->kind == RECORD_NONE;
    *place = record;
}

struct record *records_find(const struct records *records, enum record_kind kind, uint64_t key) {
    struct record *place = records->count == 0 ? NULL : look_up(records, kind, key);
    return place == NULL || place->kind == RECORD_NONE ? NULL : place;
}

/* Closes the gap at `place`: moves up each later record that probing would now no longer reach. */
static void close_gap(struct records *records, size_t place) {
    size_t mask = records->capacity - 1;
    for (size_t next = (place + 1) & mask; records->places[next].kind != RECORD_NONE;
         next = (next + 1) & mask) {
        const struct record *record = &records->places[next];
        size_t home = place_of(records, record->kind, record->key);
        if (((next - home) & mask) >= ((next - place) & mask)) {
            records->places[place] = *record;
            place = next;
        }
    }
    records->places[place].kind = RECORD_NONE;
    records->count--;
}

bool records_take(struct records *records, enum record_kind kind, uint64_t key,
                  struct record *record) {
    struct record *place = records_find(records, kind, key);
    if (place == NULL) {
        return false;
    }
    *record = *place;
    close_gap(records, (size_t)(place - records->places));
    return true;
}

void records_drop_context(struct records *records, uint32_t context) {
    for (size_t i = 0; i < records->capacity;) {
        struct record *place = &records->places[i];
        if (place->kind != RECORD_NONE && place->kind <= RECORD_LAST_OF_CONTEXT &&
            place->owner == context) {
            close_gap(records, i); /* another one may stand here now */
        } else {
            i++;
        }
    }
}
