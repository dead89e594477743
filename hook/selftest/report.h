/* What the selftest found, for people and as JSON. */
#ifndef SELFTEST_REPORT_H
#define SELFTEST_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "vcuda_layout.h"

/* Each gate may be a problem, and there are others. */
enum { MAX_GATED = 512, MAX_PROBLEMS = MAX_GATED + 64, MAX_ATTEMPTS = 16, TEXT_CHARS = 256 };

enum outcome { REFUSED, GRANTED, NOT_TRIED };

/* One try to get more than a card's share. */
struct attempt {
    const char *what;     /* a function, or "GPU time" */
    enum outcome outcome; /* GRANTED is a problem */
    char why[TEXT_CHARS]; /* numbers, or why it wasn't tried */
};

struct card {
    uint8_t uuid[VCUDA_UUID_BYTES];
    size_t total_bytes, free_bytes; /* as cuMemGetInfo shows them */
    bool full;                      /* no room for one more context: nothing could be tried */
    struct attempt attempts[MAX_ATTEMPTS];
    unsigned attempt_count;
};

struct report {
    const char *hook;                       /* its path; NULL: not loaded */
    const struct vcuda_limits_body *limits; /* NULL: not readable */
    int cuda_version;                       /* 12020 for 12.2; 0: no driver */
    char driver_version[80];                /* as NVML says it; empty: it doesn't */
    bool missing;                           /* no card, no driver or no limits: nothing to test */
    const char *gated[MAX_GATED];
    unsigned gated_count;
    struct card cards[VCUDA_MAX_CARDS];
    unsigned card_count;
    char problems[MAX_PROBLEMS][TEXT_CHARS];
    unsigned problem_count; /* further ones are counted, not kept */
};

void report_gated(struct report *report, const char *name);
/* The place of a further card; NULL: a container has no more. */
struct card *report_card(struct report *report);
void report_problem(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void report_attempt(struct card *card, const char *what, enum outcome outcome, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
const struct vcuda_device_limit *report_limit(const struct report *report, const uint8_t *uuid);
/* "GPU-5d7c1b0a-..." */
enum { UUID_CHARS = 41 };
void report_uuid(const uint8_t *uuid, char text[UUID_CHARS]);

/* The exit status. 0: the limits hold; 1: they don't; 2: there is nothing that could be tested. */
int report_status(const struct report *report);

void print_text(const struct report *report, bool with_gated);
void print_json(const struct report *report);

#endif
