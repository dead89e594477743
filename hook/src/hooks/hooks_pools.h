/*
 * The stream-ordered allocator. The memory that a pool has reserved on its card is charged, as the
 * driver tells it after each call that may change it: allocation, free, trim, and synchronisation,
 * at which the driver gives back memory beyond the release threshold (cuda.h, CU_MEMPOOL_ATTR_*).
 * Pools of host memory and imported ones, which the exporter pays, aren't charged. Allocations of a
 * stream that captures belong to the graph: see hooks_graph_memory.c. Closed without limits.
 */
#ifndef HOOK_HOOKS_POOLS_H
#define HOOK_HOOKS_POOLS_H

#include "loader/drivers.h"

/* Whether work on a stream becomes a node of a graph; and a stream by a handle that means the same
 * in a gate's two entry points. */
bool stream_is_capturing(struct driver *driver, CUstream stream);
CUstream stream_named(CUstream stream, bool per_thread);

#endif
