/* The table that the tool prints without arguments: three columns of 41, 22 and 22 characters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "processes.h"

#define INNER 87
#define WIDTH (INNER + 2)
#define NAME_WIDTH 38 /* of a process */

/* A horizontal line, by the signs at its left, along it, between the columns and at its right. */
static void rule(char left, char dash, char between, char right) {
    char line[WIDTH + 1];
    memset(line, dash, WIDTH);
    line[0] = left;
    line[WIDTH - 1] = right;
    line[42] = line[65] = between;
    line[WIDTH] = '\0';
    puts(line);
}

/* A value with its unit; "N/A"; "ERR!" for failures: their words have no room here. */
static void with_unit(const char *name, const struct gpu *gpu, const char *unit, char *text) {
    if (field_text(name, gpu, text))
        strncat(text, unit, TEXT_CHARS - 1 - strlen(text));
    else if (strcmp(text, "N/A") != 0)
        strcpy(text, "ERR!");
}

static void head(void) {
    char text[TEXT_CHARS], driver[TEXT_CHARS], cuda[TEXT_CHARS];
    clock_text(text);
    cuda_text(cuda);
    field_answer(get_driver_version(NULL, driver), driver);
    printf("%s       \n", text);
    rule('+', '-', '-', '+');
    printf("| NVIDIA-SMI %-22.22s Driver Version: %-12.12s CUDA Version: %-8.8s |\n", driver,
           driver, cuda);
    rule('|', '-', '+', '+');
    puts("| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC "
         "|");
    puts("| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. "
         "|");
    puts("|                                         |                      |               MIG M. "
         "|");
    rule('|', '=', '+', '|');
}

static const char *on_off(const char *field, const struct gpu *gpu) {
    char text[TEXT_CHARS];
    if (!field_text(field, gpu, text))
        return "N/A";
    return strcmp(text, "Enabled") == 0 ? "On" : "Off";
}

static void first_line(const struct gpu *gpu) {
    char name[TEXT_CHARS], bus[TEXT_CHARS], ecc[TEXT_CHARS];
    field_text("name", gpu, name);
    field_text("pci.bus_id", gpu, bus);
    field_text("ecc.errors.uncorrected.volatile.total", gpu, ecc);
    if (strlen(name) > 29)
        strcpy(name + 26, "...");
    printf("|%4u  %-29s %3s  | %-16.16s %3s | %20.20s |\n", gpu->index, name,
           on_off("persistence_mode", gpu), bus, on_off("display_active", gpu), ecc);
}

/* Watts here are whole ones. */
static void power_text(const struct gpu *gpu, char *text, size_t size) {
    char draw[TEXT_CHARS], cap[TEXT_CHARS];
    const char *unit = "W";
    bool known = field_text("power.draw", gpu, draw);
    draw[strcspn(draw, ".")] = '\0';
    bool capped = field_text("enforced.power.limit", gpu, cap);
    cap[strcspn(cap, ".")] = '\0';
    snprintf(text, size, "%s%s / %s%s", draw, known ? unit : "", cap, capped ? unit : "");
}

static void second_line(const struct gpu *gpu) {
    char fan[TEXT_CHARS], heat[TEXT_CHARS], state[TEXT_CHARS], power[2 * TEXT_CHARS + 8];
    char used[TEXT_CHARS], total[TEXT_CHARS], memory[2 * TEXT_CHARS + 8], load[TEXT_CHARS];
    char mode[TEXT_CHARS];
    with_unit("fan.speed", gpu, "%", fan);
    with_unit("temperature.gpu", gpu, "C", heat);
    field_text("pstate", gpu, state);
    power_text(gpu, power, sizeof power);
    with_unit("memory.used", gpu, "MiB", used);
    with_unit("memory.total", gpu, "MiB", total);
    snprintf(memory, sizeof memory, "%s / %s", used, total);
    with_unit("utilization.gpu", gpu, "%", load);
    if (field_text("compute_mode", gpu, mode) && strncmp(mode, "Exclusive_", 10) == 0)
        snprintf(mode, sizeof mode, "E. Process");
    printf("| %3.3s %5.5s    %-3.3s%23.23s |%21.21s |%8.8s%13.13s |\n", fan, heat, state, power,
           memory, load, mode);
}

static void card(const struct gpu *gpu) {
    char mig[TEXT_CHARS];
    first_line(gpu);
    second_line(gpu);
    field_text("mig.mode.current", gpu, mig);
    printf("|%41s|%22s|%21.21s |\n", "", "", mig);
    rule('+', '-', '+', '+');
}

/* The end of a long name says more than its beginning. */
static void process_line(const struct gpu *gpu, const struct process *process) {
    char memory[TEXT_CHARS];
    size_t chars = strlen(process->name);
    const char *cut = chars > NAME_WIDTH ? "..." : "";
    const char *tail = process->name + (*cut ? chars - (NAME_WIDTH - 3) : 0);
    if (process_memory(process, memory))
        strcat(memory, "MiB");
    printf("|%5u%6s%5s%10u%7s   %s%-*s  %10.10s |\n", gpu->index, "N/A", "N/A", process->pid,
           process->type, cut, (int)(NAME_WIDTH - strlen(cut)), tail, memory);
}

static unsigned card_processes(const struct gpu *gpu) {
    struct processes found;
    if (processes_list(gpu, &found) != NVML_SUCCESS)
        return 0;
    for (unsigned i = 0; i < found.count; i++)
        process_line(gpu, &found.items[i]);
    free(found.items);
    return found.count;
}

static void process_table(const struct gpus *gpus) {
    unsigned count = 0;
    printf("%*s\n", WIDTH, "");
    rule('+', '-', '-', '+');
    printf("|%-*s|\n", INNER, " Processes:");
    printf("|%-*s%10s |\n", INNER - 11, "  GPU   GI   CI        PID   Type   Process name",
           "GPU Memory");
    printf("|%-*s%-10s |\n", INNER - 11, "        ID   ID", "Usage");
    rule('|', '=', '=', '|');
    for (unsigned i = 0; i < gpus->count; i++)
        count += card_processes(&gpus->gpu[i]);
    if (count == 0)
        printf("|%-*s|\n", INNER, "  No running processes found");
    rule('+', '-', '-', '+');
}

int form_table(const struct options *options, const struct gpus *gpus) {
    (void)options;
    head();
    for (unsigned i = 0; i < gpus->count; i++)
        card(&gpus->gpu[i]);
    process_table(gpus);
    return 0;
}
