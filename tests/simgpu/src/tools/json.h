/* A small JSON reader for the description file: values in one tree, errors with their line. */
#ifndef SIMGPU_JSON_H
#define SIMGPU_JSON_H

#include <stddef.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_kind kind;
    char *key;          /* of a member of an object, else NULL */
    char *text;         /* JSON_STRING */
    double number;      /* exact for integers below 2^53, which covers every size of a card */
    struct json *child; /* JSON_ARRAY, JSON_OBJECT: first of the list */
    struct json *next;
};

/* The tree, or NULL with a message in error. Free it with json_free. */
struct json *json_parse(const char *text, char *error, size_t error_size);
void json_free(struct json *value);

#endif
