/* Clients: the processes that hold memory and queue work on the cards. */
#ifndef SIMGPU_CLIENTS_H
#define SIMGPU_CLIENTS_H

#include "state.h"

/* A slot for this process, or -1 with errno. The slot is this library's alone, also when a
 * process maps two copies of it. Takes the state's lock. */
int sim_client_claim(struct sim_state *state);

/* PID of a living client in the caller's PID namespace; 0 where it cannot be seen from there;
 * -1 when the client is gone. Call with the state's lock held. */
int sim_client_pid(const struct sim_state *state, int client);

/* Whether any client lives, which keeps the driver's modules loaded. Takes the state's lock. */
bool sim_clients_any(struct sim_state *state);

/* Frees the memory of dead clients. Call with the state's lock held. */
void sim_clients_reap(struct sim_state *state);

/* Bytes in use on a card: by all clients, and by one. A client's are its own and the shared
 * objects that it made or that only it still holds. Call with the state's lock held. */
uint64_t sim_card_used_bytes(const struct sim_state *state, uint32_t card);
uint64_t sim_client_used_bytes(const struct sim_state *state, int client, uint32_t card);

/* Whether so much more fits on the card, if need be after the dead are gone. Lock held. */
bool sim_card_has_room(struct sim_state *state, uint32_t card, uint64_t bytes);

/* Takes or gives back a client's device memory; false when the card has no room. */
bool sim_memory_take(struct sim_state *state, int client, uint32_t card, uint64_t bytes);
void sim_memory_give(struct sim_state *state, int client, uint32_t card, uint64_t bytes);

#endif
