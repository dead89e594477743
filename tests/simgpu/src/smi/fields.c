#include "fields.h"

#include <stdio.h>
#include <string.h>

const struct field fields[] = {
#define FIELD(name, alias, unit, getter) {name, alias, unit, get_##getter},
#include "fields.def"
#undef FIELD
};
const size_t field_count = sizeof fields / sizeof fields[0];

const struct field *field_find(const char *name) {
    for (size_t i = 0; i < field_count; i++)
        if (*name && (strcmp(fields[i].name, name) == 0 || strcmp(fields[i].alias, name) == 0))
            return &fields[i];
    return NULL;
}

bool field_answer(nvmlReturn_t rc, char *text) {
    if (rc == NVML_SUCCESS)
        return true;
    bool absent = rc == NVML_ERROR_NOT_SUPPORTED || rc == NVML_ERROR_FUNCTION_NOT_FOUND;
    snprintf(text, TEXT_CHARS, "%s", absent ? "N/A" : nvml_words(rc));
    return false;
}

bool field_text(const char *name, const struct gpu *gpu, char *text) {
    return field_answer(field_find(name)->get(gpu, text), text);
}

nvmlReturn_t put_number(nvmlReturn_t rc, char *text, const char *format,
                        unsigned long long number) {
    if (rc == NVML_SUCCESS)
        snprintf(text, TEXT_CHARS, format, number);
    return rc;
}

nvmlReturn_t put_word(nvmlReturn_t rc, char *text, const char *const *words, size_t count,
                      unsigned number) {
    if (rc == NVML_SUCCESS)
        snprintf(text, TEXT_CHARS, "%s", number < count ? words[number] : "Unknown");
    return rc;
}
