/* Graphs for the checks. */
#ifndef SIMGPU_GRAPHS_H
#define SIMGPU_GRAPHS_H

#include "checks.h"

static inline CUgraph new_graph(void) {
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    return graph;
}

static inline CUgraphExec made(CUgraph graph) {
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

#endif
