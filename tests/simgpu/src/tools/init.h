/* Making the shared state from the description. */
#ifndef SIMGPU_INIT_H
#define SIMGPU_INIT_H

#include "state/state.h"

/* Makes or renews the state file; leaves an equal one alone, unless forced. On failure prints the
 * reason to stderr and returns false. */
bool init_state(bool force);

#endif
