/* Nodes and edges of a graph: listed, added, removed. */
#include <string.h>

#include "api.h"
#include "graph.h"

/* A list by the driver's protocol: out NULL asks for the number; a longer place is filled up with
 * NULL, and the number tells how many there were. */
static void give(const struct nodes *found, CUgraphNode *out, size_t *count) {
    size_t room = *count;
    *count = out && room < found->count ? room : found->count;
    for (size_t i = 0; out && i < room; i++)
        out[i] = i < found->count ? found->items[i] : NULL;
}

static bool is_root(const struct node *node) { return node->after.count == 0; }
static bool is_any(const struct node *node) {
    (void)node;
    return true;
}

static CUresult list(CUgraph graph, bool (*wanted)(const struct node *), CUgraphNode *out,
                     size_t *count) {
    struct nodes found = {0};
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    if (!count || !graph_is(graph))
        rc = CUDA_ERROR_INVALID_VALUE;
    for (struct node *at = rc == CUDA_SUCCESS ? graph->nodes : NULL; at; at = at->next)
        if (wanted(at) && !nodes_add(&found, at))
            rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS)
        give(&found, out, count);
    pthread_mutex_unlock(&driver.lock);
    nodes_clear(&found);
    return rc;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    return list(graph, is_any, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    return list(graph, is_root, nodes, count);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    if (!count || !graph_is(graph) || !from != !to)
        rc = CUDA_ERROR_INVALID_VALUE;
    size_t found = 0, room = rc == CUDA_SUCCESS && from ? *count : 0;
    for (struct node *at = rc == CUDA_SUCCESS ? graph->nodes : NULL; at; at = at->next)
        for (size_t i = 0; i < at->after.count; i++, found++)
            if (found < room) {
                from[found] = at->after.items[i];
                to[found] = at;
            }
    for (size_t i = found; i < room; i++)
        from[i] = to[i] = NULL;
    if (rc == CUDA_SUCCESS)
        *count = from && room < found ? room : found;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = type && node_is(node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *type = node->type;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, size_t *count) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = count && node_is(node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        give(&node->after, out, count);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out, size_t *count) {
    struct nodes found = {0};
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = count && node_is(node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (struct node *at = rc == CUDA_SUCCESS ? node->graph->nodes : NULL; at; at = at->next)
        if (nodes_have(&at->after, node) && !nodes_add(&found, at))
            rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS)
        give(&found, out, count);
    pthread_mutex_unlock(&driver.lock);
    nodes_clear(&found);
    return rc;
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    if (!node_is(node) || node->graph->executable)
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (node->type == NODE_MEM_ALLOC || node->type == NODE_MEM_FREE)
        rc = CUDA_ERROR_NOT_SUPPORTED; /* documented: memory nodes stay */
    else
        graph_remove(node);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* An edge that is there already, or leads to its own beginning, is refused. */
static CUresult link_nodes(CUgraph graph, CUgraphNode from, CUgraphNode to, bool add) {
    if (!node_is(from) || !node_is(to) || from->graph != graph || to->graph != graph || from == to)
        return CUDA_ERROR_INVALID_VALUE;
    if (nodes_have(&to->after, from) == add)
        return CUDA_ERROR_INVALID_VALUE;
    if (add)
        return nodes_add(&to->after, from) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < to->after.count; i++)
        if (to->after.items[i] == from)
            to->after.items[i] = to->after.items[--to->after.count];
    return CUDA_SUCCESS;
}

static CUresult change(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count,
                       bool add) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    if (!graph_is(graph) || graph->executable || (count && (!from || !to)))
        rc = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; rc == CUDA_SUCCESS && i < count; i++)
        rc = link_nodes(graph, from[i], to[i], add);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t count) {
    return change(graph, from, to, count, true);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t count) {
    return change(graph, from, to, count, false);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edges, size_t count) {
    (void)edges; /* no programmatic launches here: all edges are full dependencies */
    return change(graph, from, to, count, true);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edges, size_t count) {
    (void)edges;
    return change(graph, from, to, count, false);
}

/* From 12.3 on edges may carry data; here none does, so the data is zero. */
static CUresult without_data(CUresult rc, const CUgraphNode *given, CUgraphEdgeData *edges,
                             const size_t *count) {
    if (rc == CUDA_SUCCESS && given && edges)
        memset(edges, 0, *count * sizeof *edges);
    return rc;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edges, size_t *count) {
    return without_data(cuGraphGetEdges(graph, from, to, count), from, edges, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges,
                                       size_t *count) {
    return without_data(cuGraphNodeGetDependencies(node, out, count), out, edges, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges,
                                         size_t *count) {
    return without_data(cuGraphNodeGetDependentNodes(node, out, count), out, edges, count);
}
