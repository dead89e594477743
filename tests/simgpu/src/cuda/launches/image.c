/* Facts from a program's image, and from a kernel's name. */
#include "image.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_DURATION_NS 10000 /* a small kernel of a training step */

/* The name ends in _<n>ns, _<n>us, _<n>ms or _<n>s. */
static uint64_t duration_of_name(const char *name) {
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    const char *last = strrchr(name, '_');
    char *end;
    if (!last || !isdigit((unsigned char)last[1]))
        return DEFAULT_DURATION_NS;
    uint64_t count = strtoull(last + 1, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].unit) == 0)
            return count * units[i].ns;
    return DEFAULT_DURATION_NS;
}

bool image_is_name(const char *name) {
    size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$");
    return length > 0 && length < 256 && name[length] == '\0';
}

bool image_names(const char *text, const char *directive, const char *name) {
    size_t length = strlen(name);
    for (const char *at = strstr(text, directive); at; at = strstr(at + 1, directive)) {
        const char *end = at + strcspn(at, "(;={");
        for (const char *word = strstr(at, name); word && word < end; word = strstr(word + 1, name))
            if (isspace((unsigned char)word[-1]) && !image_is_name((char[2]){word[length], '\0'}))
                return true;
    }
    return false;
}

bool image_is_ptx(const char *image) {
    while (isspace((unsigned char)*image) || (image[0] == '/' && image[1] == '/'))
        image += *image == '/' ? strcspn(image, "\n") : 1;
    return strncmp(image, ".version", 8) == 0;
}

/* Default attributes by CUfunction_attribute: threads, shared, constant, local bytes, registers,
 * PTX and binary version, cache mode, dynamic shared memory, carve-out. */
struct function *function_new(const char *name) {
    static const int defaults[16] = {1024, 0, 0, 0, 32, 80, 80, 0, 49152, -1};
    struct function *function = calloc(1, sizeof *function);
    if (!function)
        return NULL;
    snprintf(function->name, sizeof function->name, "%s", name);
    memcpy(function->attributes, defaults, sizeof defaults);
    function->duration_ns = duration_of_name(name);
    function->first_parameter = strcmp(name, "spin") == 0;
    return function;
}
