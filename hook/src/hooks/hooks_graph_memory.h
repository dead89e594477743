/*
 * The memory that graphs allocate. Making an allocation node, by hand or by capture, takes
 * addresses only; the memory is taken when the graph is uploaded or launched, and kept for the next
 * launch until the device's graph memory is trimmed (cuda.h, cuGraphAddMemAllocNode and
 * cuDeviceGraphMemTrim). So a launch is charged with the most that the graph can take, and then
 * with the memory that the driver holds for graphs on that device: memory that several graphs share
 * is charged once. Memory that two graphs take beyond that at the same time can't be taken back: it
 * shows in the agent's `unaccounted`. Closed without limits.
 */
#ifndef HOOK_HOOKS_GRAPH_MEMORY_H
#define HOOK_HOOKS_GRAPH_MEMORY_H

#include "loader/drivers.h"
#include "memory/graph_exec.h"
#include "memory/mempool_account.h"

/* Around a launch or an upload of a graph, which takes the memory that the graph allocates. After
 * SUCCESS the driver's answer goes to graph_memory_end, which returns it. */
struct graph_memory {
    unsigned count;
    CUdevice devices[GRAPH_EXEC_DEVICES];
    struct mempool_charge charges[GRAPH_EXEC_DEVICES];
};
CUresult graph_memory_begin(struct driver *driver, CUgraphExec exec, struct graph_memory *memory);
CUresult graph_memory_end(struct driver *driver, CUgraphExec exec, struct graph_memory *memory,
                          CUresult result);

#endif
