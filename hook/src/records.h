/*
 * What this process allocated: size by device pointer, and which context it lies in. Plain data of
 * one process; callers hold its lock. The table lies in memory that a forked child doesn't have.
 */
#ifndef HOOK_RECORDS_H
#define HOOK_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record {
    uint64_t pointer; /* 0: free place */
    uint64_t bytes;   /* as requested */
    uint32_t context; /* number of a context, see account.h */
};

struct records {
    struct record *places;
    size_t capacity; /* power of two */
    size_t count;
};

/* Makes room for `extra` more, so that records_put can't fail. False without memory. */
bool records_reserve(struct records *records, size_t extra);
void records_put(struct records *records, struct record record);
/* Removes and returns the record of a pointer; false where there is none. */
bool records_take(struct records *records, uint64_t pointer, struct record *record);
void records_drop_context(struct records *records, uint32_t context);

#endif
