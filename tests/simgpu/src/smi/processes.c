#include "processes.h"

#include <stdio.h>
#include <stdlib.h>

#include "fields.h"

typedef nvmlReturn_t list_call(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos);

/* The list may grow between the two calls, so there is room for more and another try. */
static nvmlReturn_t fetch(list_call *call, const struct gpu *gpu, nvmlProcessInfo_t **infos,
                          unsigned *count) {
    nvmlReturn_t rc = call ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_ERROR_FUNCTION_NOT_FOUND;
    *infos = NULL;
    *count = 0;
    while (rc == NVML_ERROR_INSUFFICIENT_SIZE) {
        unsigned room = *count + 32;
        free(*infos);
        *infos = calloc(room, sizeof **infos);
        *count = room;
        rc = *infos ? call(gpu->device, count, *infos) : NVML_ERROR_MEMORY;
    }
    if (rc != NVML_SUCCESS) {
        free(*infos);
        *infos = NULL;
        *count = 0;
    }
    return rc;
}

static struct process *known(struct processes *out, unsigned pid) {
    for (unsigned i = 0; i < out->count; i++)
        if (out->items[i].pid == pid)
            return &out->items[i];
    return NULL;
}

static void add(struct processes *out, const nvmlProcessInfo_t *info, const char *type) {
    struct process *process = known(out, info->pid);
    if (process) {
        process->type = "C+G";
        return;
    }
    process = &out->items[out->count++];
    *process = (struct process){.pid = info->pid, .type = type, .used_bytes = info->usedGpuMemory};
    nvmlReturn_t rc = ASK(nvmlSystemGetProcessName, info->pid, process->name, NAME_CHARS);
    if (rc != NVML_SUCCESS)
        snprintf(process->name, NAME_CHARS, "[%s]", nvml_words(rc));
}

nvmlReturn_t processes_list(const struct gpu *gpu, struct processes *out) {
    nvmlProcessInfo_t *compute, *graphics;
    unsigned compute_count, graphics_count;
    *out = (struct processes){0, NULL};
    nvmlReturn_t rc =
        fetch(nvml.nvmlDeviceGetComputeRunningProcesses_v3, gpu, &compute, &compute_count);
    if (rc != NVML_SUCCESS)
        return rc;
    /* Compute-only cards have no graphics list; that is no error. */
    fetch(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, gpu, &graphics, &graphics_count);
    out->items = calloc(compute_count + graphics_count + 1, sizeof *out->items);
    for (unsigned i = 0; out->items && i < compute_count; i++)
        add(out, &compute[i], "C");
    for (unsigned i = 0; out->items && i < graphics_count; i++)
        add(out, &graphics[i], "G");
    free(compute);
    free(graphics);
    return out->items ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

bool process_memory(const struct process *process, char *text) {
    bool known_bytes = process->used_bytes != ~0ULL; /* NVML_VALUE_NOT_AVAILABLE */
    nvmlReturn_t rc = known_bytes ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    return field_answer(put_number(rc, text, "%llu", process->used_bytes >> 20), text);
}
