/* The processes of a card. */
#ifndef SIMGPU_SMI_PROCESSES_H
#define SIMGPU_SMI_PROCESSES_H

#include "smi.h"

#define NAME_CHARS 256

struct process {
    unsigned pid;
    const char *type; /* "C", "G", "C+G" */
    unsigned long long used_bytes;
    char name[NAME_CHARS]; /* its first argument; "[Not Found]" where that is unknown */
};

struct processes {
    unsigned count;
    struct process *items; /* free() them */
};

/* Processes of a card, those that compute first. */
nvmlReturn_t processes_list(const struct gpu *gpu, struct processes *out);

/* MiB without the unit; false after "N/A". */
bool process_memory(const struct process *process, char *text);

#endif
