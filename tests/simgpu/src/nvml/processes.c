/* The processes of a card. PIDs are those of the reader's namespace; a process that cannot be seen
 * from there is left out, so that a container without the host's PIDs sees only its own. */
#include "api.h"

struct process {
    unsigned pid;
    int client;
    uint64_t used_bytes;
};

static unsigned collect(nvmlDevice_t device, struct process *found) {
    unsigned count = 0;
    struct sim_state *state = session.state;
    for (int client = 0; client < SIM_CLIENTS_MAX; client++) {
        const struct sim_use *use = &state->clients[client].use[device->card];
        if (!state->clients[client].in_use || use->contexts == 0)
            continue;
        int pid = sim_client_pid(state, client);
        if (pid > 0)
            found[count++] = (struct process){(unsigned)pid, client,
                                              sim_client_used_bytes(state, client, device->card)};
    }
    return count;
}

/* NVML's protocol for lists: the caller's room comes in *count, the number of entries goes out. */
static nvmlReturn_t answer_size(unsigned *count, unsigned found, const void *out) {
    unsigned room = *count;
    *count = found;
    if (found > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    return found && !out ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

static nvmlReturn_t list(nvmlDevice_t device, unsigned *count, const void *out,
                         struct process *found) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, count, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    sim_lock(session.state);
    sim_clients_reap(session.state); /* shared memory of the dead counts for the living */
    unsigned number = collect(device, found);
    sim_unlock(session.state);
    return answer_size(count, number, out);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                     nvmlProcessInfo_t *infos) {
    struct process found[SIM_CLIENTS_MAX];
    nvmlReturn_t rc = list(device, count, infos, found);
    for (unsigned i = 0; rc == NVML_SUCCESS && i < *count; i++)
        infos[i] = (nvmlProcessInfo_t){found[i].pid, found[i].used_bytes, NVML_NO_INSTANCE,
                                       NVML_NO_INSTANCE};
    return rc;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count,
                                                     nvmlProcessInfo_t *infos) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                  nvmlProcessInfo_v1_t *infos) {
    struct process found[SIM_CLIENTS_MAX];
    nvmlReturn_t rc = list(device, count, infos, found);
    for (unsigned i = 0; rc == NVML_SUCCESS && i < *count; i++)
        infos[i] = (nvmlProcessInfo_v1_t){found[i].pid, found[i].used_bytes};
    return rc;
}

/* No graphics and no MPS here. */
static nvmlReturn_t list_none(nvmlDevice_t device, unsigned *count) {
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, count, &card);
    if (rc == NVML_SUCCESS)
        *count = 0;
    return rc;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                      nvmlProcessInfo_t *infos) {
    (void)infos;
    return list_none(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned *count,
                                                      nvmlProcessInfo_t *infos) {
    (void)infos;
    return list_none(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                   nvmlProcessInfo_v1_t *infos) {
    (void)infos;
    return list_none(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                        nvmlProcessInfo_t *infos) {
    (void)infos;
    return list_none(device, count);
}

/* Time stamps are microseconds of the wall clock; the time line runs by the monotonic one. */
static uint64_t since_ns(unsigned long long last_seen_us) {
    uint64_t wall_ns = last_seen_us * 1000;
    return wall_ns > session.state->epoch_ns ? wall_ns - session.state->epoch_ns : 0;
}

struct samples {
    unsigned count;
    nvmlProcessUtilizationSample_t items[SIM_CLIENTS_MAX + SIM_ENDED_MAX];
};

static void add_sample(struct samples *samples, uint32_t card, unsigned pid, const uint32_t *busy,
                       uint64_t since) {
    const struct sim_state *state = session.state;
    uint64_t span_us, end_ns;
    uint64_t busy_us = sim_windows_busy_us(state, card, busy, since,
                                           sim_windows_told_ns(state, card), &span_us, &end_ns);
    if (busy_us)
        samples->items[samples->count++] = (nvmlProcessUtilizationSample_t){
            .pid = pid,
            /* rounded up: a question for later samples doesn't get this one again */
            .timeStamp = (end_ns + state->epoch_ns + 999) / 1000,
            .smUtil = (unsigned)((busy_us * 100 + span_us / 2) / span_us)};
}

/* A process that has ended can't be looked for: it is shown where its own PID is the reader's. */
static void collect_samples(nvmlDevice_t device, struct samples *samples, uint64_t since) {
    struct process found[SIM_CLIENTS_MAX];
    const struct sim_state *state = session.state;
    const struct sim_card *card = &state->cards[device->card];
    unsigned count = collect(device, found);
    for (unsigned i = 0; i < count; i++)
        add_sample(samples, device->card, found[i].pid,
                   state->clients[found[i].client].use[device->card].busy_us, since);
    uint64_t here = sim_pid_namespace();
    for (uint64_t i = 0; i < card->ended_count && i < SIM_ENDED_MAX; i++)
        if (here && card->ended[i].pid_namespace == here)
            add_sample(samples, device->card, (unsigned)card->ended[i].pid, card->ended[i].busy_us,
                       since);
}

/* One averaged sample for each process with any use since the time stamp; none: NOT_FOUND. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t *samples,
                                             unsigned *count, unsigned long long last_seen_us) {
    struct samples found = {0};
    struct sim_card *card;
    nvmlReturn_t rc = device_check(device, count, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    sim_lock(session.state);
    sim_clients_reap(session.state);
    sim_timeline_advance(session.state, device->card, sim_now_ns());
    collect_samples(device, &found, since_ns(last_seen_us));
    sim_unlock(session.state);
    if (found.count == 0)
        return NVML_ERROR_NOT_FOUND;
    rc = answer_size(count, found.count, samples);
    for (unsigned i = 0; rc == NVML_SUCCESS && i < found.count; i++)
        samples[i] = found.items[i];
    return rc;
}
