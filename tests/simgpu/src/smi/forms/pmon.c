/* pmon: what each process does, line by line, until killed or for -c rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "processes.h"

struct pmon {
    const char *ids;
    bool load, memory; /* -s u, -s m */
    unsigned delay_s;
    unsigned rounds; /* 0: no end */
};

struct samples {
    unsigned count;
    nvmlProcessUtilizationSample_t *items;
};

static bool parse_select(const char *text, struct pmon *pmon) {
    pmon->load = pmon->memory = false;
    for (; *text; text++) {
        if (*text != 'u' && *text != 'm')
            return false;
        *(*text == 'u' ? &pmon->load : &pmon->memory) = true;
    }
    return pmon->load || pmon->memory;
}

/* One option with its value; false when either is not one of pmon's. */
static bool parse_option(const char *option, const char *value, struct pmon *pmon) {
    if (strcmp(option, "-i") == 0 || strcmp(option, "--id") == 0) {
        pmon->ids = value;
        return *value;
    }
    if (strcmp(option, "-s") == 0 || strcmp(option, "--select") == 0)
        return parse_select(value, pmon);
    if (strcmp(option, "-d") == 0 || strcmp(option, "--delay") == 0)
        return parse_number(value, 1, 10, &pmon->delay_s);
    if (strcmp(option, "-c") == 0 || strcmp(option, "--count") == 0)
        return parse_number(value, 1, ~0u, &pmon->rounds);
    return false;
}

static int usage(int status) {
    puts("Usage: nvidia-smi pmon [options]\n"
         "  -i, --id      cards: index, UUID or PCI bus ID, comma-separated (default: all)\n"
         "  -s, --select  u: utilization (default), m: memory, or both\n"
         "  -d, --delay   seconds between two rounds, 1 to 10 (default: 1)\n"
         "  -c, --count   rounds (default: until killed)\n"
         "  -h, --help    this text");
    return status;
}

static void header(const struct pmon *pmon) {
    printf("# gpu%11s%6s", "pid", "type");
    if (pmon->load)
        printf("%6s%6s%6s%6s", "sm", "mem", "enc", "dec");
    if (pmon->memory)
        printf("%6s%7s", "fb", "ccpm");
    printf("   command        \n# Idx%11s%6s", "#", "C/G");
    if (pmon->load)
        printf("%6s%6s%6s%6s", "%", "%", "%", "%");
    if (pmon->memory)
        printf("%6s%7s", "MB", "MB");
    puts("   name           ");
}

static const nvmlProcessUtilizationSample_t *newest(const struct samples *samples, unsigned pid) {
    const nvmlProcessUtilizationSample_t *found = NULL;
    for (unsigned i = 0; i < samples->count; i++) {
        const nvmlProcessUtilizationSample_t *item = &samples->items[i];
        if (item->pid == pid && (!found || item->timeStamp > found->timeStamp))
            found = item;
    }
    return found;
}

static const char *percent(char *text, const nvmlProcessUtilizationSample_t *sample,
                           unsigned value) {
    sprintf(text, sample ? "%u" : "-", value);
    return text;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Engines at rest are '-', as is each value of an idle card. */
static void row(const struct pmon *pmon, const struct gpu *gpu, const struct process *process,
                const nvmlProcessUtilizationSample_t *sample) {
    char pid[12] = "-", sm[12], mem[12], memory[TEXT_CHARS] = "-";
    if (process)
        snprintf(pid, sizeof pid, "%u", process->pid);
    printf("%5u%11s%6s", gpu->index, pid, process ? process->type : "-");
    if (pmon->load)
        printf("%6s%6s%6s%6s", percent(sm, sample, sample ? sample->smUtil : 0),
               percent(mem, sample, sample ? sample->memUtil : 0), "-", "-");
    if (pmon->memory && process && !process_memory(process, memory))
        strcpy(memory, "-");
    if (pmon->memory)
        printf("%6s%7s", memory, "-");
    printf("   %-15.15s\n", process && *process->name != '[' ? base_name(process->name) : "-");
}

static nvmlReturn_t sample_since(const struct gpu *gpu, unsigned long long since_us,
                                 struct samples *out) {
    *out = (struct samples){0, NULL};
    nvmlReturn_t rc =
        ASK(nvmlDeviceGetProcessUtilization, gpu->device, NULL, &out->count, since_us);
    while (rc == NVML_ERROR_INSUFFICIENT_SIZE) {
        free(out->items);
        out->count += 32; /* more may come between two calls */
        out->items = calloc(out->count, sizeof *out->items);
        if (!out->items)
            return NVML_ERROR_MEMORY;
        rc = ASK(nvmlDeviceGetProcessUtilization, gpu->device, out->items, &out->count, since_us);
    }
    if (rc != NVML_SUCCESS || !out->items)
        out->count = 0;
    /* No process was busy, or the card can't tell: both are rows of '-'. */
    bool quiet = rc == NVML_ERROR_NOT_FOUND || rc == NVML_ERROR_NOT_SUPPORTED ||
                 rc == NVML_ERROR_FUNCTION_NOT_FOUND;
    return quiet ? NVML_SUCCESS : rc;
}

static nvmlReturn_t card(const struct pmon *pmon, const struct gpu *gpu) {
    struct timeval now;
    struct processes found;
    struct samples samples;
    gettimeofday(&now, NULL);
    unsigned long long now_us = (unsigned long long)now.tv_sec * 1000000 + now.tv_usec;
    nvmlReturn_t rc = processes_list(gpu, &found);
    if (rc != NVML_SUCCESS)
        return rc;
    rc = sample_since(gpu, now_us - pmon->delay_s * 1000000ULL, &samples);
    for (unsigned i = 0; rc == NVML_SUCCESS && i < found.count; i++)
        row(pmon, gpu, &found.items[i], newest(&samples, found.items[i].pid));
    if (rc == NVML_SUCCESS && found.count == 0)
        row(pmon, gpu, NULL, NULL);
    free(found.items);
    free(samples.items);
    return rc;
}

static int watch(const struct pmon *pmon) {
    header(pmon);
    for (unsigned round = 0; !pmon->rounds || round < pmon->rounds; round++) {
        struct gpus gpus;
        if (round > 0)
            sleep_ms(pmon->delay_s * 1000);
        int status = gpus_select(pmon->ids, &gpus);
        for (unsigned i = 0; !status && i < gpus.count; i++) {
            nvmlReturn_t rc = card(pmon, &gpus.gpu[i]);
            if (rc == NVML_SUCCESS)
                continue;
            printf("Unable to watch GPU %u: %s\n", gpus.gpu[i].index, nvml_words(rc));
            status = nvml_status(rc);
        }
        if (fflush(stdout) != 0)
            status = EXIT_OTHER;
        if (status)
            return status;
    }
    return 0;
}

int run_pmon(int argc, char **argv) {
    struct pmon pmon = {.load = true, .delay_s = 1};
    for (int i = 0; i < argc; i += 2) {
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
            return usage(0);
        if (i + 1 < argc && parse_option(argv[i], argv[i + 1], &pmon))
            continue;
        printf("Invalid argument of pmon: %s %s\n", argv[i], i + 1 < argc ? argv[i + 1] : "");
        return usage(EXIT_BAD_ARGUMENT);
    }
    int status = nvml_open();
    return status ? status : watch(&pmon);
}
