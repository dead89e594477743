#include "shared/bytes.h"

#include <stdint.h>

/* Keeps a compiler from making a call of memcpy, or of memset, of the loop that it stands in. */
#define STEP __asm__ volatile("" ::: "memory")

static void *copy_upwards(void *to, const void *from, size_t bytes) {
    uint8_t *target = to;
    const uint8_t *source = from;
    for (size_t i = 0; i < bytes; i++) {
        target[i] = source[i];
        STEP;
    }
    return to;
}

static void *copy_downwards(void *to, const void *from, size_t bytes) {
    uint8_t *target = to;
    const uint8_t *source = from;
    for (size_t i = bytes; i > 0; i--) {
        target[i - 1] = source[i - 1];
        STEP;
    }
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    return copy_upwards(to, from, bytes);
}

void *memmove(void *to, const void *from, size_t bytes) {
    return (uintptr_t)to <= (uintptr_t)from ? copy_upwards(to, from, bytes)
                                            : copy_downwards(to, from, bytes);
}

void *memset(void *to, int value, size_t bytes) {
    uint8_t *target = to;
    for (size_t i = 0; i < bytes; i++) {
        target[i] = (uint8_t)value;
        STEP;
    }
    return to;
}
