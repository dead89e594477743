/* XID errors: raised by the `simgpu` tool, awaited through NVML's event sets. */
#ifndef SIMGPU_XIDS_H
#define SIMGPU_XIDS_H

#include "state.h"

#define SIM_XID_FELL_OFF_THE_BUS 79

void sim_xid_raise(struct sim_state *state, uint32_t card, uint32_t xid);

/* Sleeps until more than `seen` XIDs were raised, or the time is over. */
void sim_xid_wait(struct sim_state *state, uint64_t seen, unsigned timeout_ms);

#endif
