/* Open addressing with linear probing, at most half full; deletion shifts back, so no tombstones.
 */
#include "records.h"

#include <sys/mman.h>

enum { FIRST_CAPACITY = 1024 };

static size_t place_of(const struct records *records, uint64_t pointer) {
    /* Device pointers differ in their upper bits only; Fibonacci hashing spreads them. */
    return (size_t)((pointer * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (records->capacity - 1);
}

static struct record *find(const struct records *records, uint64_t pointer) {
    size_t place = place_of(records, pointer);
    while (records->places[place].pointer != 0 && records->places[place].pointer != pointer) {
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
        if (records->places[i].pointer != 0) {
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
    struct record *place = find(records, record.pointer);
    records->count += place->pointer == 0;
    *place = record;
}

/* Closes the gap at `place`: moves up each later record that probing would now no longer reach. */
static void close_gap(struct records *records, size_t place) {
    size_t mask = records->capacity - 1;
    for (size_t next = (place + 1) & mask; records->places[next].pointer != 0;
         next = (next + 1) & mask) {
        size_t home = place_of(records, records->places[next].pointer);
        if (((next - home) & mask) >= ((next - place) & mask)) {
            records->places[place] = records->places[next];
            place = next;
        }
    }
    records->places[place].pointer = 0;
    records->count--;
}

bool records_take(struct records *records, uint64_t pointer, struct record *record) {
    if (records->count == 0 || pointer == 0) {
        return false;
    }
    struct record *place = find(records, pointer);
    if (place->pointer == 0) {
        return false;
    }
    *record = *place;
    close_gap(records, (size_t)(place - records->places));
    return true;
}

void records_drop_context(struct records *records, uint32_t context) {
    for (size_t i = 0; i < records->capacity;) {
        struct record *place = &records->places[i];
        if (place->pointer != 0 && place->context == context) {
            close_gap(records, i); /* another one may stand here now */
        } else {
            i++;
        }
    }
}
