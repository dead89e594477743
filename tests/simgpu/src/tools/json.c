#include "json.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16 /* the description has 3 levels */

struct reader {
    const char *text, *at;
    char *error;
    size_t error_size;
    int depth;
};

static struct json *read_value(struct reader *reader);

static struct json *fail(struct reader *reader, const char *what) {
    int line = 1;
    for (const char *c = reader->text; c < reader->at; c++)
        line += *c == '\n';
    if (!reader->error[0])
        snprintf(reader->error, reader->error_size, "line %d: %s", line, what);
    return NULL;
}

static void skip_blanks(struct reader *reader) {
    while (*reader->at && isspace((unsigned char)*reader->at))
        reader->at++;
}

static bool accept(struct reader *reader, char wanted) {
    skip_blanks(reader);
    if (*reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

static struct json *new_value(enum json_kind kind) {
    struct json *value = calloc(1, sizeof *value);
    if (!value)
        abort(); /* a short-lived tool on a machine without memory */
    value->kind = kind;
    return value;
}

/* Strings of the description are plain names; escapes other than \" \\ \/ are refused. */
static char *read_string(struct reader *reader) {
    if (!accept(reader, '"')) {
        fail(reader, "expected a string");
        return NULL;
    }
    size_t length = strcspn(reader->at, "\"\\\n");
    char *text = calloc(1, strlen(reader->at) + 1);
    size_t used = 0;
    while (text) {
        memcpy(text + used, reader->at, length);
        used += length;
        reader->at += length;
        if (*reader->at == '"')
            break;
        if (*reader->at != '\\' || !reader->at[1] || !strchr("\"\\/", reader->at[1])) {
            fail(reader, "bad character in a string");
            free(text);
            return NULL;
        }
        text[used++] = reader->at[1];
        reader->at += 2;
        length = strcspn(reader->at, "\"\\\n");
    }
    reader->at++;
    return text;
}

static struct json *read_list(struct reader *reader, enum json_kind kind, char end) {
    struct json *list = new_value(kind), **tail = &list->child;
    reader->at++;
    if (accept(reader, end))
        return list;
    do {
        char *key = kind == JSON_OBJECT ? read_string(reader) : NULL;
        struct json *value = NULL;
        if (kind != JSON_OBJECT || (key && accept(reader, ':')))
            value = read_value(reader);
        if (!value) {
            fail(reader, "expected a value");
            free(key);
            json_free(list);
            return NULL;
        }
        value->key = key;
        *tail = value;
        tail = &value->next;
    } while (accept(reader, ','));
    if (accept(reader, end))
        return list;
    json_free(list);
    return fail(reader, kind == JSON_OBJECT ? "expected ',' or '}'" : "expected ',' or ']'");
}

static struct json *read_word(struct reader *reader) {
    static const struct {
        const char *word;
        enum json_kind kind;
        double number;
    } words[] = {{"true", JSON_BOOL, 1}, {"false", JSON_BOOL, 0}, {"null", JSON_NULL, 0}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncmp(reader->at, words[i].word, strlen(words[i].word)) == 0) {
            reader->at += strlen(words[i].word);
            struct json *value = new_value(words[i].kind);
            value->number = words[i].number;
            return value;
        }
    char *end;
    double number = strtod(reader->at, &end);
    if (end == reader->at)
        return fail(reader, "expected a value");
    reader->at = end;
    struct json *value = new_value(JSON_NUMBER);
    value->number = number;
    return value;
}

static struct json *read_value(struct reader *reader) {
    skip_blanks(reader);
    if (++reader->depth > DEPTH_MAX)
        return fail(reader, "nested too deeply");
    struct json *value = NULL;
    if (*reader->at == '{') {
        value = read_list(reader, JSON_OBJECT, '}');
    } else if (*reader->at == '[') {
        value = read_list(reader, JSON_ARRAY, ']');
    } else if (*reader->at == '"') {
        char *text = read_string(reader);
        if (text) {
            value = new_value(JSON_STRING);
            value->text = text;
        }
    } else {
        value = read_word(reader);
    }
    reader->depth--;
    return value;
}

struct json *json_parse(const char *text, char *error, size_t error_size) {
    struct reader reader = {.text = text, .at = text, .error = error, .error_size = error_size};
    error[0] = '\0';
    struct json *value = read_value(&reader);
    skip_blanks(&reader);
    if (value && *reader.at) {
        json_free(value);
        return fail(&reader, "text after the end");
    }
    return value;
}

void json_free(struct json *value) {
    while (value) {
        struct json *next = value->next;
        json_free(value->child);
        free(value->key);
        free(value->text);
        free(value);
        value = next;
    }
}
