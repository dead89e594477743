/* -q: everything about the cards, key by key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "processes.h"

#define KEY_COLUMNS 42 /* where the colons stand */

/* The words of -d, as bits; ALL is in no list of sections but the whole one. */
#define SECTIONS(X)                                                                                \
    X(MEMORY, 1)                                                                                   \
    X(UTILIZATION, 2)                                                                              \
    X(ECC, 4)                                                                                      \
    X(TEMPERATURE, 8)                                                                              \
    X(POWER, 16)                                                                                   \
    X(CLOCK, 32)                                                                                   \
    X(COMPUTE, 64)                                                                                 \
    X(PIDS, 128)                                                                                   \
    X(PERFORMANCE, 256)

enum {
#define SECTION(name, bit) SECTION_##name = bit,
    SECTIONS(SECTION)
#undef SECTION
        SECTION_ALL = 512,
};

static const struct {
    const char *name;
    unsigned bit;
} sections[] = {
#define SECTION(name, bit) {#name, bit},
    SECTIONS(SECTION)
#undef SECTION
};

static const struct line {
    unsigned section;
    int depth;
    const char *key, *field, *unit;
} lines[] = {
#define LINE(section, depth, key, field, unit) {SECTION_##section, depth, key, field, unit},
#include "log.def"
#undef LINE
};

static unsigned section_bit(const char *word, size_t chars) {
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (strlen(sections[i].name) == chars && strncmp(sections[i].name, word, chars) == 0)
            return sections[i].bit;
    return 0;
}

/* The bits of -d; 0 after a message about an unknown word. */
static unsigned wanted(const char *list) {
    unsigned bits = list ? 0 : ~0u;
    while (list) {
        size_t chars = strcspn(list, ",");
        unsigned bit = section_bit(list, chars);
        if (!bit) {
            printf("Display type \"%.*s\" is not a valid one.\n", (int)chars, list);
            return 0;
        }
        bits |= bit;
        list = list[chars] ? list + chars + 1 : NULL;
    }
    return bits;
}

static void pair(int depth, const char *key, const char *value) {
    printf("%*s%-*s: %s\n", 4 * depth, "", KEY_COLUMNS - 4 * depth, key, value);
}

static void line(const struct line *line, const struct gpu *gpu) {
    char text[TEXT_CHARS], whole[2 * TEXT_CHARS];
    if (!*line->field) {
        printf("%*s%s\n", 4 * line->depth, "", line->key);
        return;
    }
    const char *unit = field_find(line->field)->unit;
    bool known = field_text(line->field, gpu, text);
    snprintf(whole, sizeof whole, "%s%s%s%s", text, known && *unit ? " " : "", known ? unit : "",
             known ? line->unit : "");
    pair(line->depth, line->key, whole);
}

static void process(const struct process *process) {
    char text[TEXT_CHARS];
    pair(2, "GPU instance ID", "N/A");
    pair(2, "Compute instance ID", "N/A");
    snprintf(text, sizeof text, "%u", process->pid);
    pair(2, "Process ID", text);
    pair(3, "Type", process->type);
    pair(3, "Name", process->name);
    if (process_memory(process, text))
        strcat(text, " MiB");
    pair(3, "Used GPU Memory", text);
}

static void processes(const struct gpu *gpu) {
    struct processes found;
    nvmlReturn_t rc = processes_list(gpu, &found);
    if (rc != NVML_SUCCESS || found.count == 0)
        pair(1, "Processes", rc == NVML_SUCCESS ? "None" : "N/A");
    else
        puts("    Processes");
    for (unsigned i = 0; i < found.count; i++)
        process(&found.items[i]);
    free(found.items);
}

static void card(const struct gpu *gpu, unsigned bits) {
    char bus[TEXT_CHARS];
    field_text("pci.bus_id", gpu, bus);
    printf("GPU %s\n", bus);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (lines[i].section & bits)
            line(&lines[i], gpu);
    if (bits & SECTION_PIDS)
        processes(gpu);
    putchar('\n');
}

int form_log(const struct options *options, const struct gpus *gpus) {
    char text[TEXT_CHARS];
    unsigned bits = wanted(options->sections), count = 0;
    if (!bits)
        return EXIT_BAD_ARGUMENT;
    puts("\n==============NVSMI LOG==============\n");
    clock_text(text);
    pair(0, "Timestamp", text);
    field_answer(get_driver_version(NULL, text), text);
    pair(0, "Driver Version", text);
    cuda_text(text);
    pair(0, "CUDA Version", text);
    putchar('\n');
    nvmlReturn_t rc = ASK(nvmlDeviceGetCount_v2, &count);
    field_answer(put_number(rc, text, "%llu", count), text);
    pair(0, "Attached GPUs", text);
    for (unsigned i = 0; i < gpus->count; i++)
        card(&gpus->gpu[i], bits);
    return 0;
}
