#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_number(const char *text, uint32_t *out) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *out = (uint32_t)value;
    return end != text && *end == '\0' && text[0] != '-' && value <= UINT32_MAX;
}

static bool read_word(const char *word, struct sim_fault *fault) {
    uint32_t result = 0;
    if (strcmp(word, "missing") == 0) {
        fault->missing = 1;
        return true;
    }
    if (strncmp(word, "nth=", 4) == 0)
        return read_number(word + 4, &fault->nth) && fault->nth > 0;
    if (strncmp(word, "count=", 6) == 0)
        return read_number(word + 6, &fault->count);
    if (strncmp(word, "delay_us=", 9) == 0)
        return read_number(word + 9, &fault->delay_us);
    if (strncmp(word, "result=", 7) != 0 || !read_number(word + 7, &result) || result > 999)
        return false;
    fault->result = (int32_t)result;
    return true;
}

bool sim_fault_parse(const char *text, struct sim_fault *fault, char *error, size_t error_size) {
    char copy[256], *rest = copy;
    *fault = (struct sim_fault){.nth = 1, .count = 1};
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word; (word = strsep(&rest, " \t"));) {
        if (!*word)
            continue;
        if (!fault->symbol[0]) {
            snprintf(fault->symbol, sizeof fault->symbol, "%s", word);
        } else if (!read_word(word, fault)) {
            snprintf(error, error_size,
                     "%s: not one of result=0..999, nth=1.., count=0.., delay_us=0.., missing",
                     word);
            return false;
        }
    }
    if (strncmp(fault->symbol, "cu", 2) != 0) {
        snprintf(error, error_size, "%s: not a symbol of libcuda", fault->symbol);
        return false;
    }
    return true;
}

bool sim_fault_meets(const struct sim_fault *fault, const char *symbol) {
    size_t length = strlen(fault->symbol);
    if (length && fault->symbol[length - 1] == '*')
        return strncmp(fault->symbol, symbol, length - 1) == 0;
    return strcmp(fault->symbol, symbol) == 0;
}
