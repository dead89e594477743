/* Graphs: nodes, their order, and executable copies. driver.lock guards all of it. */
#ifndef SIMGPU_GRAPH_H
#define SIMGPU_GRAPH_H

#include "driver.h"

struct node {
    struct node *next; /* in the order of their making */
    struct graph *graph;
    const struct node *origin; /* the node that this one is a copy of */
    int type;                  /* NODE_KERNEL … */
    struct nodes after;
    union {
        CUDA_KERNEL_NODE_PARAMS kernel;
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS fill;
        CUDA_HOST_NODE_PARAMS host;
        CUevent event;
        struct graph *child;
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
        CUdeviceptr address;
    };
    uint64_t duration_ns; /* of a kernel, worked out when its parameters were given */
    bool disabled;
    bool done; /* while a graph runs: the node was queued, and ends at end_ns */
    uint64_t end_ns;
};

struct graph {
    struct graph *next;
    const struct graph *origin; /* the graph that this one is a copy of */
    bool child, executable;     /* owned by a node, by a graph_exec */
    struct node *nodes, **last;
};

struct graph_exec {
    struct graph_exec *next;
    struct graph *graph;
    const struct graph *source;
    unsigned long long flags;
    uint64_t end_ns; /* runs of one executable graph follow each other */
    uint32_t card;   /* of the last run */
};

/* nodes.c: sets. false: no memory. */
bool nodes_add(struct nodes *set, struct node *node);
bool nodes_copy(struct nodes *set, const struct nodes *from);
bool nodes_merge(struct nodes *set, const struct nodes *from);
bool nodes_have(const struct nodes *set, const struct node *node);
void nodes_clear(struct nodes *set);
/* Whether a node is, or comes before, one of the set. */
bool nodes_lead_from(const struct nodes *set, const struct node *node);

/* graph.c */
struct graph *graph_make(void);
struct graph *graph_copy(const struct graph *graph);
void graph_free(struct graph *graph);
bool graph_is(const struct graph *handle);
bool node_is(const struct node *handle);
bool exec_is(const struct graph_exec *handle);
void execs_forget(const struct graph *source); /* which is freed: another one may get its handle */
struct node *graph_add(struct graph *graph, int type, const struct nodes *after);
void graph_remove(struct node *node);
struct node *graph_copy_of(const struct graph *graph, const struct node *original);
bool graph_has_type(const struct graph *graph, int type);
/* Whether the graph may get a node that frees this address: of an alloc node, and not freed in the
 * graph yet. */
bool graph_may_free(const struct graph *graph, uint64_t address);
bool graph_has_memory(const struct graph *graph); /* nodes that allocate or free */

/* graph_params.c: checks a node's work, and keeps it. */
CUresult node_set(struct node *node, const CUgraphNodeParams *params);

/* graph_run.c: does the graph's work after a point of GPU time; returns the result and the end. */
CUresult graph_run(struct graph *graph, struct context *context, struct stream *stream,
                   uint64_t after_ns, uint64_t *end_ns);
/* A topological order is there. */
bool graph_is_acyclic(struct graph *graph);

#endif
