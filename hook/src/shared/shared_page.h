/* A limits file or an activity page, mapped, and a checked copy of its last published content. */
#ifndef HOOK_SHARED_PAGE_H
#define HOOK_SHARED_PAGE_H

#include <stdbool.h>

#include "vcuda_layout.h"

union shared_page_body {
    struct vcuda_limits_body limits;
    struct vcuda_activity_body activity;
};

struct shared_page {
    const void *mapping; /* NULL: not mapped yet */
    bool valid;          /* `body` was read at least once, and stays in force */
    uint32_t published;
    uint64_t generation;
    union shared_page_body body;
};

/* Reads the page again. True when the body is valid: just read, or read before. */
bool shared_page_refresh(struct shared_page *page, const char *path, const char *magic);

uint32_t crc32_ieee(uint32_t crc, const void *data, size_t length);

#endif
