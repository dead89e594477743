/* The memory that the allocations of a graph need together. */
#ifndef HOOK_GRAPH_SPANS_H
#define HOOK_GRAPH_SPANS_H

#include "loader/drivers.h"

enum { GRAPH_ANY_DEVICE = -1 };

/* Bytes of address space that a graph's allocation nodes cover on a device, also those of its child
 * graphs. Allocations that don't live at the same time share addresses, which the driver gives out
 * when a node is made (CUDA C++ Programming Guide, "Graph Memory Nodes"); so this is the most that
 * one launch takes. 0 also where the driver has no such nodes. */
uint64_t graph_span_bytes(struct driver *driver, CUgraph graph, CUdevice device);

#endif
