/* Executable graphs that allocate, and what each needs of a device when it is launched. */
#ifndef HOOK_GRAPH_EXEC_H
#define HOOK_GRAPH_EXEC_H

#include "memory/account.h"

/* Devices of one process; no host has more. */
enum { GRAPH_EXEC_DEVICES = 16 };

/* Devices that one of this process ever allocated on are below this: others pay nothing. */
CUdevice graph_exec_devices(void);
/* `bytes` 0: it needs none, as one before it with the same handle may have. */
void graph_exec_put(CUgraphExec exec, CUdevice device, uint64_t bytes);
/* What a launch may take anew: 0 where a launch before this one has left it in place. False for one
 * that allocates nothing there. */
bool graph_exec_need(CUgraphExec exec, CUdevice device, uint64_t *bytes);
void graph_exec_launched(CUgraphExec exec, CUdevice device);
/* The driver was told to give back what is idle: nothing is in place any more. */
void graph_exec_trimmed(void);

#endif
