/* Executable graphs changed in place, node by node or by a graph of the same shape. */
#include "api.h"
#include "graph.h"

static bool same_edges(const struct node *old, const struct node *fresh) {
    if (old->after.count != fresh->after.count)
        return false;
    for (size_t i = 0; i < old->after.count; i++) {
        const struct node *a = old->graph->nodes, *b = fresh->graph->nodes;
        while (a != old->after.items[i] && a && b)
            a = a->next, b = b->next;
        if (!nodes_have(&fresh->after, b))
            return false;
    }
    return true;
}

/* Nodes are matched in the order of their making. */
static int compare(const struct graph *old, const struct graph *fresh, CUgraphNode *wrong) {
    struct node *a = old->nodes, *b = fresh->nodes;
    *wrong = NULL;
    for (; a && b; a = a->next, b = b->next) {
        *wrong = b;
        if (a->type != b->type)
            return UPDATE_NODE_TYPE_CHANGED;
        if (!same_edges(a, b))
            return UPDATE_TOPOLOGY_CHANGED;
        if (a->type == NODE_MEM_ALLOC || a->type == NODE_MEM_FREE)
            return UPDATE_NOT_SUPPORTED;
        if (a->type == NODE_GRAPH) {
            int result = compare(a->child, b->child, wrong);
            if (result != UPDATE_SUCCESS)
                return result;
        }
    }
    *wrong = b;
    return a || b ? UPDATE_TOPOLOGY_CHANGED : UPDATE_SUCCESS;
}

static void take_over(struct graph *old, const struct graph *fresh) {
    struct node *a = old->nodes;
    for (const struct node *b = fresh->nodes; b; a = a->next, b = b->next) {
        if (b->type == NODE_GRAPH)
            take_over(a->child, b->child);
        else if (b->type == NODE_KERNEL)
            a->kernel = b->kernel, a->duration_ns = b->duration_ns;
        else if (b->type == NODE_MEMCPY)
            a->copy = b->copy;
        else if (b->type == NODE_MEMSET)
            a->fill = b->fill;
        else if (b->type == NODE_HOST)
            a->host = b->host;
        else
            a->event = b->event;
    }
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
    CUgraphExecUpdateResultInfo found = {UPDATE_ERROR, NULL, NULL};
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    if (!exec_is(exec) || !graph_is(graph)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else {
        found.result = compare(exec->graph, graph, &found.errorNode);
        if (found.result == UPDATE_SUCCESS)
            take_over(exec->graph, graph);
        else
            rc = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    pthread_mutex_unlock(&driver.lock);
    if (info)
        *info = found;
    return rc;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *wrong, int *result) {
    CUgraphExecUpdateResultInfo info;
    CUresult rc = cuGraphExecUpdate_v2(exec, graph, &info);
    if (wrong)
        *wrong = info.errorNode;
    if (result)
        *result = info.result;
    return rc;
}

/* A node of the graph that was instantiated; kernels, copies and fills can be switched. */
static CUresult find(CUgraphExec exec, CUgraphNode node, struct node **found) {
    *found = exec_is(exec) && node_is(node) ? graph_copy_of(exec->graph, node) : NULL;
    return *found && (*found)->type <= NODE_MEMSET ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
    struct node *found;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = find(exec, node, &found);
    if (rc == CUDA_SUCCESS)
        found->disabled = enabled == 0;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled) {
    struct node *found;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = enabled ? find(exec, node, &found) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *enabled = !found->disabled;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}
