/* Values of the description; a wrong one is refused by its key. */
#ifndef SIMGPU_VALUES_H
#define SIMGPU_VALUES_H

#include <stdbool.h>

#include "json.h"

/* Where the message of what is wrong goes. */
struct problem {
    char *text;
    size_t size;
};

/* Keeps the message; returns false. */
__attribute__((format(printf, 2, 3))) bool refuse(struct problem *problem, const char *format, ...);

/* A whole number from low to high. `where` is the path before the key, such as "cards[0].". */
bool read_number(const struct json *value, const char *where, double low, double high, double *out,
                 struct problem *problem);
bool read_text(const struct json *value, const char *where, char *out, size_t size,
               struct problem *problem);

#endif
