/* What cards and processes were busy, by windows of time, as NVML tells it.
 *
 * By all rules but two a window has what each process ran in it. By the other two a window is one
 * sample: the card's busy time in it goes to the one process that is on the card at its end.
 *
 * All functions want the state's lock held. */
#ifndef SIMGPU_WINDOWS_H
#define SIMGPU_WINDOWS_H

#include "state.h"

uint64_t sim_window_ns(const struct sim_state *state);

/* The client, or the card where client < 0, at which the window's sample finds the card busy, has
 * run for so long in the present window. */
void sim_windows_run(struct sim_state *state, uint32_t card, int client, uint32_t micros);

/* The card's clock is in this window now; at the end of the one before, that client was on the
 * card (-1: none). */
void sim_windows_enter(struct sim_state *state, uint32_t card, uint64_t window, int on_card);

/* The client's process has ended: its samples stay. */
void sim_windows_end(struct sim_state *state, int client);

/* Microseconds of `busy` (a card's, a client's, an ended one's) in the windows that ended after
 * since_ns, up to `until_ns`; *span_us gets their length and *end_ns the end of the last. */
uint64_t sim_windows_busy_us(const struct sim_state *state, uint32_t card, const uint32_t *busy,
                             uint64_t since_ns, uint64_t until_ns, uint64_t *span_us,
                             uint64_t *end_ns);

/* Up to when NVML tells of processes. */
uint64_t sim_windows_told_ns(const struct sim_state *state, uint32_t card);

/* The calling process's PID namespace, 0 where it can't be known. */
uint64_t sim_pid_namespace(void);

#endif
