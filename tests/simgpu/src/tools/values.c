#include "values.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool refuse(struct problem *problem, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(problem->text, problem->size, format, args);
    va_end(args);
    return false;
}

bool read_number(const struct json *value, const char *where, double low, double high, double *out,
                 struct problem *problem) {
    if (value->kind != JSON_NUMBER || value->number < low || value->number > high ||
        value->number != (double)(long long)value->number)
        return refuse(problem, "%s%s: not a whole number from %.0f to %.0f", where, value->key, low,
                      high);
    *out = value->number;
    return true;
}

bool read_text(const struct json *value, const char *where, char *out, size_t size,
               struct problem *problem) {
    if (value->kind != JSON_STRING || !value->text[0] || strlen(value->text) >= size)
        return refuse(problem, "%s%s: not a text of 1 to %zu characters", where, value->key,
                      size - 1);
    snprintf(out, size, "%s", value->text);
    return true;
}
