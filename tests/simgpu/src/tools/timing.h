/* The description's "timing": README.md, "Time". */
#ifndef SIMGPU_TIMING_H
#define SIMGPU_TIMING_H

#include "state/state.h"
#include "values.h"

struct sim_timing timing_default(void);
bool read_timing(const struct json *object, struct sim_timing *timing, struct problem *problem);

#endif
