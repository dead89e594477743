/* Shared memory objects: device memory that more than one process may hold.
 *
 * An object lives while a living client holds it, or a descriptor that was exported for it is open
 * anywhere: in a process without a driver, or on its way through a socket. Its contents are a
 * sparse file beside the state, so that every process of the machine can map them. An exported
 * descriptor is an open file description of its own with an OFD lock: the kernel drops that lock
 * with the last copy of the descriptor, wherever it is. */
#ifndef SIMGPU_OBJECTS_H
#define SIMGPU_OBJECTS_H

#include "state.h"

/* Makes an object of `bytes`, held by the client. Of these, paid_bytes were taken by the client
 * before and become the object's. Returns its number, or 0: no room. Takes the lock. */
uint64_t sim_object_make(struct sim_state *state, int client, uint32_t card, uint64_t bytes,
                         uint64_t paid_bytes);

/* The client holds the object too; false when there is no such object. *found gets a copy. */
bool sim_object_hold(struct sim_state *state, int client, uint64_t id, struct sim_object *found);

/* The client's hold on the object ends. Takes the lock, as sim_object_hold does. */
void sim_object_drop(struct sim_state *state, int client, uint64_t id);

/* Opens the object's file; exported: as a descriptor that keeps the object alive. -1: errno. */
int sim_object_open(uint64_t id, bool exported);

/* The object that a descriptor was exported for, or 0. Takes the lock. */
uint64_t sim_object_of_fd(struct sim_state *state, int fd);

/* All below: the state's lock is held. */
void sim_objects_forget(struct sim_state *state, int client);
void sim_objects_reap(struct sim_state *state);
uint64_t sim_objects_bytes(const struct sim_state *state, uint32_t card);
uint64_t sim_objects_bytes_of(const struct sim_state *state, int client, uint32_t card);

/* Removes the files of a machine, before its state is made anew. */
void sim_objects_clear(void);

#endif
