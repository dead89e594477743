/* Executable graphs that allocate, and the memory that each needs of a device when it is
 * launched. */
#ifndef HOOK_GRAPH_EXEC_H
#define HOOK_GRAPH_EXEC_H

#include "memory/account.h"

/* Devices of one process; no host has more. */
enum { GRAPH_EXEC_DEVICES = 16 };

/* Devices with an allocation by a graph of this process are below this: others pay nothing. */
CUdevice graph_exec_devices(void);
/* `bytes` 0: the graph needs none; one before it with the same handle may have needed some. */
void graph_exec_put(CUgraphExec exec, CUdevice device, uint64_t bytes);
/* The memory that a launch may take anew: 0 where a launch before this one has left it in place.
 * False for a graph without an allocation there. */
bool graph_exec_need(CUgraphExec exec, CUdevice device, uint64_t *bytes);
void graph_exec_launched(CUgraphExec exec, CUdevice device);
/* The driver was told to give back idle memory: no graph's memory is in place any more. */
void graph_exec_trimmed(void);

#endif
