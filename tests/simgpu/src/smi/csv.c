#include "csv.h"

#include <stdio.h>
#include <string.h>

/* False unless the text is csv[,noheader][,nounits] in any order. */
static bool read_format(const char *text, struct format *format) {
    bool csv = false, known = true;
    *format = (struct format){true, true};
    while (known) {
        size_t chars = strcspn(text, ",");
        if (chars == 3 && strncmp(text, "csv", chars) == 0)
            csv = true;
        else if (chars == 8 && strncmp(text, "noheader", chars) == 0)
            format->header = false;
        else if (chars == 7 && strncmp(text, "nounits", chars) == 0)
            format->units = false;
        else
            known = false;
        if (!known || !text[chars])
            break;
        text += chars + 1;
    }
    return known && csv;
}

static int read_columns(const char *list, const void *(*find)(const char *name),
                        const void **columns) {
    int count = 0;
    while (true) {
        char name[TEXT_CHARS];
        list += strspn(list, " ");
        size_t chars = strcspn(list, ", ");
        snprintf(name, sizeof name, "%.*s", (int)chars, list);
        if (count == COLUMNS_MAX || !(columns[count++] = find(name))) {
            printf("Field \"%s\" is not a valid field to query.\n\n", name);
            return -1;
        }
        list += chars;
        list += strspn(list, " ");
        if (!*list)
            return count;
        list += *list == ',';
    }
}

int csv_open(const struct options *options, const void *(*find)(const char *name),
             struct format *format, const void **columns) {
    if (options->format && read_format(options->format, format))
        return read_columns(options->fields, find, columns);
    printf(options->format ? "Invalid value of --format: %s.\n" : "--format= is missing.\n",
           options->format);
    puts("It is csv[,noheader][,nounits]. Please run 'nvidia-smi -h'.");
    return -1;
}

void csv_heading(bool first, const char *name, const char *unit) {
    printf("%s%s", first ? "" : ", ", name);
    if (*unit)
        printf(" [%s]", unit);
}

void csv_value(bool first, bool known, const char *text, const char *unit) {
    printf(known ? "%s%s" : "%s[%s]", first ? "" : ", ", text);
    if (known && *unit)
        printf(" %s", unit);
}
