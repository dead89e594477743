/* --query-gpu=FIELDS: one line a card. */
#include <stdio.h>

#include "csv.h"
#include "fields.h"

/* Names with a dot in front are -q's own. */
static const void *find(const char *name) { return *name == '.' ? NULL : field_find(name); }

static void line(const struct format *format, const struct gpu *gpu, const void **columns,
                 int count) {
    for (int i = 0; i < count; i++) {
        char text[TEXT_CHARS];
        const struct field *field = columns[i];
        bool known = field_text(field->name, gpu, text);
        csv_value(i == 0, known, text, format->units ? field->unit : "");
    }
    putchar('\n');
}

static void heading(const void **columns, int count) {
    for (int i = 0; i < count; i++) {
        const struct field *field = columns[i];
        csv_heading(i == 0, field->name, field->unit);
    }
    putchar('\n');
}

int form_query_gpu(const struct options *options, const struct gpus *gpus) {
    const void *columns[COLUMNS_MAX];
    struct format format;
    int count = csv_open(options, find, &format, columns);
    if (count < 0)
        return EXIT_BAD_ARGUMENT;
    if (format.header && options->round == 0)
        heading(columns, count);
    for (unsigned i = 0; i < gpus->count; i++)
        line(&format, &gpus->gpu[i], columns, count);
    return 0;
}

int help_query_gpu(void) {
    puts("Fields of --query-gpu:");
    for (size_t i = 0; i < field_count; i++)
        if (*fields[i].name != '.')
            printf("  %s%s%s\n", fields[i].name, *fields[i].alias ? " or " : "", fields[i].alias);
    return 0;
}
