/* --query-compute-apps=FIELDS: one line a process and card. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"
#include "fields.h"
#include "processes.h"

static bool pid_text(const struct process *process, char *text) {
    return field_answer(put_number(NVML_SUCCESS, text, "%llu", process->pid), text);
}

static bool name_text(const struct process *process, char *text) {
    snprintf(text, NAME_CHARS, "%s", process->name);
    return true;
}

/* A column is about the process, or one of the card's fields. */
struct column {
    const char *name, *alias, *unit;
    bool (*process)(const struct process *process, char *text);
    const char *field;
};

static const struct column table[] = {
    {"timestamp", "", "", NULL, "timestamp"},
    {"gpu_name", "", "", NULL, "name"},
    {"gpu_bus_id", "", "", NULL, "pci.bus_id"},
    {"gpu_serial", "", "", NULL, "serial"},
    {"gpu_uuid", "", "", NULL, "uuid"},
    {"pid", "", "", pid_text, NULL},
    {"process_name", "name", "", name_text, NULL},
    {"used_gpu_memory", "used_memory", "MiB", process_memory, NULL},
};
#define COLUMNS (sizeof table / sizeof table[0])

static const void *find(const char *name) {
    for (size_t i = 0; i < COLUMNS; i++)
        if (*name && (strcmp(table[i].name, name) == 0 || strcmp(table[i].alias, name) == 0))
            return &table[i];
    return NULL;
}

static void line(const struct format *format, const struct gpu *gpu, const struct process *process,
                 const void **columns, int count) {
    for (int i = 0; i < count; i++) {
        char text[NAME_CHARS];
        const struct column *column = columns[i];
        bool known =
            column->process ? column->process(process, text) : field_text(column->field, gpu, text);
        csv_value(i == 0, known, text, format->units ? column->unit : "");
    }
    putchar('\n');
}

static nvmlReturn_t lines(const struct format *format, const struct gpu *gpu, const void **columns,
                          int count) {
    struct processes found;
    nvmlReturn_t rc = processes_list(gpu, &found);
    if (rc != NVML_SUCCESS)
        return rc;
    for (unsigned i = 0; i < found.count; i++)
        if (*found.items[i].type == 'C')
            line(format, gpu, &found.items[i], columns, count);
    free(found.items);
    return NVML_SUCCESS;
}

int form_query_apps(const struct options *options, const struct gpus *gpus) {
    const void *columns[COLUMNS_MAX];
    struct format format;
    int count = csv_open(options, find, &format, columns);
    if (count < 0)
        return EXIT_BAD_ARGUMENT;
    for (int i = 0; format.header && options->round == 0 && i < count; i++) {
        const struct column *column = columns[i];
        csv_heading(i == 0, column->name, column->unit);
    }
    if (format.header && options->round == 0)
        putchar('\n');
    for (unsigned i = 0; i < gpus->count; i++) {
        nvmlReturn_t rc = lines(&format, &gpus->gpu[i], columns, count);
        if (rc == NVML_SUCCESS)
            continue;
        printf("Unable to list the processes of GPU %u: %s\n", gpus->gpu[i].index, nvml_words(rc));
        return nvml_status(rc);
    }
    return 0;
}

int help_query_apps(void) {
    puts("Fields of --query-compute-apps:");
    for (size_t i = 0; i < COLUMNS; i++)
        printf("  %s%s%s\n", table[i].name, *table[i].alias ? " or " : "", table[i].alias);
    return 0;
}
