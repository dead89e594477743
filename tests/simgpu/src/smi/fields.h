/* The fields of a card, by the names of --query-gpu. */
#ifndef SIMGPU_SMI_FIELDS_H
#define SIMGPU_SMI_FIELDS_H

#include "smi.h"

struct field {
    const char *name, *alias;
    const char *unit; /* "": none */
    /* Writes the value without its unit, at most TEXT_CHARS. */
    nvmlReturn_t (*get)(const struct gpu *gpu, char *text);
};

#define FIELD(name, alias, unit, getter)                                                           \
    nvmlReturn_t get_##getter(const struct gpu *gpu, char *text);
#include "fields.def"
#undef FIELD

extern const struct field fields[];
extern const size_t field_count;

/* NULL: there is none such. */
const struct field *field_find(const char *name);

/* The value, or the words for its absence: "N/A", "GPU is lost". Such words are never followed by a
 * unit; true when it is a value. */
bool field_text(const char *name, const struct gpu *gpu, char *text);
bool field_answer(nvmlReturn_t rc, char *text);

/* A getter's last step: the number as text, if the call succeeded. Ask first, in a statement of
 * its own: the arguments of one call are evaluated in no order. */
nvmlReturn_t put_number(nvmlReturn_t rc, char *text, const char *format, unsigned long long number);

/* The word at the number's place; "Unknown" past the list's end. */
nvmlReturn_t put_word(nvmlReturn_t rc, char *text, const char *const *words, size_t count,
                      unsigned number);

#endif
