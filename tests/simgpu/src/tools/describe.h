/* The description file: the cards of this machine. README.md has its format. */
#ifndef SIMGPU_DESCRIBE_H
#define SIMGPU_DESCRIBE_H

#include "state/state.h"

#define SIM_DEFAULT_CARDS "/etc/simgpu/cards.json"

/* Fills driver, cuda_version, card_count, cards and links of an empty state from the file (from
 * the defaults where there is none). Returns false with a message that names the key. */
bool describe_cards(const char *path, struct sim_state *state, char *error, size_t error_size);

#endif
