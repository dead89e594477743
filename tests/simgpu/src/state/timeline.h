/* A card's virtual time line.
 *
 * Each client has GPU time of its own on each card (`progress_ns`): it runs while the client has
 * the card. Work is queued by GPU time: a stream's next kernel ends at max(progress, the stream's
 * tail) + its duration, so that streams of one client overlap, as on a card that has room for all
 * of them. A copy takes GPU time of its client, and no multiprocessor: where nothing else of a
 * client is due, its GPU time goes on beside the others' turns. Clients with kernels take turns, a
 * slice each (sim_timing); alone, a client keeps the card. Wall-clock rate: one nanosecond of GPU
 * time takes one nanosecond.
 *
 * All functions want the state's lock held. */
#ifndef SIMGPU_TIMELINE_H
#define SIMGPU_TIMELINE_H

#include "state.h"

/* Works the card's time line out up to now_ns (CLOCK_MONOTONIC). */
void sim_timeline_advance(struct sim_state *state, uint32_t card, uint64_t now_ns);

/* Queues work of this length after `after_ns` of the client's GPU time; returns its end. */
uint64_t sim_timeline_queue(struct sim_state *state, int client, uint32_t card, uint64_t after_ns,
                            uint64_t duration_ns);

/* Queues a copy likewise, behind those of the client that its engine still has to do. Beside it
 * other clients have the multiprocessors. */
uint64_t sim_timeline_copy(struct sim_state *state, int client, uint32_t card, uint64_t after_ns,
                           enum sim_engine engine, uint64_t duration_ns);

/* A lower bound of the wall time until the client's GPU time reaches the target; 0: it has. */
uint64_t sim_timeline_wait_ns(const struct sim_state *state, int client, uint32_t card,
                              uint64_t target_ns);

/* Wall time (CLOCK_MONOTONIC) at which the client's GPU time passed the target, which it must
 * have; exact for the last SIM_SEGMENTS turns of the client. */
uint64_t sim_timeline_wall_ns(const struct sim_state *state, int client, uint32_t card,
                              uint64_t target_ns);

/* The client's GPU time from which on one more stretch of kernels can be told from the queued ones;
 * 0: now. */
uint64_t sim_timeline_full_until(const struct sim_state *state, int client, uint32_t card);

/* Drops a client's queued work on every card. */
void sim_timeline_forget(struct sim_state *state, int client);

#endif
