/* The simulated nvidia-smi: what its forms share.
 *
 * main.c picks a form; each form is one file. What a card can be asked is one table (fields.def),
 * read by --query-gpu, -q and the default table alike. All output, messages too, goes to stdout,
 * as with the real tool. */
#ifndef SIMGPU_SMI_H
#define SIMGPU_SMI_H

#include <stdbool.h>
#include <stddef.h>

#include "nvml.h"

#define GPUS_MAX 64
#define TEXT_CHARS 128 /* longer than any name that NVML 535 returns (96) */

/* Exit statuses; other numbers are those of nvmlReturn_t. */
enum {
    EXIT_BAD_ARGUMENT = 2,
    EXIT_NO_DEVICE = 6,
    EXIT_NO_LIBRARY = 12,
    EXIT_OTHER = 255,
};

struct gpu {
    unsigned index;
    nvmlDevice_t device;
};

struct gpus {
    unsigned count;
    struct gpu gpu[GPUS_MAX];
};

struct options {
    int (*form)(const struct options *options, const struct gpus *gpus);
    const char *ids;      /* -i: comma-separated; NULL: every card */
    const char *fields;   /* --query-X= */
    const char *format;   /* --format= */
    const char *sections; /* -d; NULL: all of -q */
    unsigned interval_ms; /* 0: once */
    unsigned round;       /* how often the form ran before */
};

/* The cards that -i names; on failure a message and the exit status. */
int gpus_select(const char *ids, struct gpus *gpus);

/* The forms. Each returns the exit status. */
int form_table(const struct options *options, const struct gpus *gpus);
int form_list(const struct options *options, const struct gpus *gpus);
int form_log(const struct options *options, const struct gpus *gpus);
int form_query_gpu(const struct options *options, const struct gpus *gpus);
int form_query_apps(const struct options *options, const struct gpus *gpus);
int form_version(const struct options *options, const struct gpus *gpus);

/* Sub-commands, with arguments of their own. */
int run_pmon(int argc, char **argv);
int run_topo(int argc, char **argv);

int help(void);
int help_query_gpu(void);
int help_query_apps(void);

/* True when the text is a whole number in [least, most]. */
bool parse_number(const char *text, unsigned least, unsigned most, unsigned *number);

/* "Sat Nov 21 12:43:27 2026" */
void clock_text(char *text);

/* "12.2" */
void cuda_text(char *text);

void sleep_ms(unsigned ms);

#endif
