/* What the selftest found, and its JSON. */
#ifndef SELFTEST_REPORT_H
#define SELFTEST_REPORT_H

#include <stddef.h>

#include "vcuda_layout.h"

/* Each gate may be a problem, and there are others. */
enum { MAX_GATED = 256, MAX_PROBLEMS = MAX_GATED + 64, PROBLEM_CHARS = 256 };

struct card {
    uint8_t uuid[VCUDA_UUID_BYTES];
    size_t total_bytes, free_bytes; /* as cuMemGetInfo shows them */
};

struct report {
    const char *hook;                       /* its path; NULL: not loaded */
    const struct vcuda_limits_body *limits; /* NULL: not readable */
    int driver_version;                     /* 12020 for 12.2; 0: no driver */
    unsigned full;                          /* cards with no room for one more context */
    const char *gated[MAX_GATED];
    unsigned gated_count;
    struct card cards[VCUDA_MAX_CARDS];
    unsigned card_count;
    char problems[MAX_PROBLEMS][PROBLEM_CHARS];
    unsigned problem_count; /* further ones are counted, not kept */
};

void report_gated(struct report *report, const char *name);
void report_card(struct report *report, const struct card *card);
void report_problem(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const struct vcuda_device_limit *report_limit(const struct report *report, const uint8_t *uuid);
void report_print(const struct report *report);

#endif
