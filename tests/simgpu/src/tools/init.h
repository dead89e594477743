/* Making the shared state from the description. */
#ifndef SIMGPU_INIT_H
#define SIMGPU_INIT_H

#include "../state/state.h"

/* Makes or renews the state file; leaves one alone that says the same already, unless forced.
 * Prints what is wrong to stderr and returns false. */
bool init_state(bool force);

#endif
