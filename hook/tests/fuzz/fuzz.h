/*
 * Shared by the fuzzers. An input is a list of operations: the program gives it structure, so
 * that fuzzers need no seeds, and bytes beyond the input's end are zero.
 *
 * The mapped files lie in memory, at descriptors with the numbers in the build's paths: a fuzzer
 * leaves no files behind, and locks on them are as on any file.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vcuda_layout.h"

enum { FUZZ_LIMITS_FD = 901, FUZZ_ACTIVITY_FD, FUZZ_LEDGER_FD };

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort(); /* what libFuzzer calls a finding */                                          \
        }                                                                                          \
    } while (0)

struct input {
    const uint8_t *data;
    size_t left;
};

static inline void take(struct input *input, void *into, size_t bytes) {
    size_t given = bytes < input->left ? bytes : input->left;
    memset(into, 0, bytes);
    memcpy(into, input->data, given);
    input->data += given;
    input->left -= given;
}

static inline uint8_t take_byte(struct input *input) {
    uint8_t value;
    take(input, &value, sizeof value);
    return value;
}

static inline uint64_t take_word(struct input *input) {
    uint64_t value;
    take(input, &value, sizeof value);
    return value;
}

/* A number of as many bits as the input tells: small numbers are as likely as large ones. */
static inline uint64_t take_number(struct input *input) {
    unsigned bits = take_byte(input) % 65;
    uint64_t value = take_word(input);
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

/* An empty file at `fd`. */
void fuzz_file(int fd);
void fuzz_resize(int fd, uint64_t bytes);
void *fuzz_map(int fd, size_t bytes);
/* The writer of both pages, up to its death: 4 is the last step. */
void fuzz_publish(struct vcuda_limits_file *file, const void *body, unsigned steps);
void fuzz_page_begin(struct vcuda_limits_file *file, const char *magic);
/* Whether the slot's CRC fits; not computed as the hook does. */
bool fuzz_slot_fits(const struct vcuda_limits_slot *slot);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
