/* The traces of loaded kernel modules: device nodes and /proc entries. */
#ifndef SIMGPU_NODES_H
#define SIMGPU_NODES_H

#include "state/state.h"

#define SIM_MAJOR 195 /* the real driver's, fixed */
#define SIM_MINOR_CONTROL 255
#define SIM_MAJOR_UVM 235 /* the real one is given by the kernel; this is a usual value */

/* Makes one character device with mode 0666, or a plain file where SIMGPU_DEV is set. A correct
 * node stays. On failure prints the reason to stderr and returns false. */
bool make_node(const char *name, unsigned major, unsigned minor);

/* /proc/driver/nvidia and the modules' lines in /proc/devices, by bind mounts. */
bool make_proc(const struct sim_state *state);

#endif
