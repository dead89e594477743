/* cuGraphAdd…Node, and answers of nodes about themselves. */
#include "api.h"
#include "graph.h"

static bool are_nodes_of(const struct graph *graph, const CUgraphNode *nodes, size_t count) {
    if (count && !nodes)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!node_is(nodes[i]) || nodes[i]->graph != graph)
            return false;
    return true;
}

/* A refused node leaves no rest. driver.lock held. */
static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                    const CUgraphNodeParams *params) {
    struct nodes set = {(struct node **)(uintptr_t)after, count};
    if (!out || !graph_is(graph) || graph->executable || !are_nodes_of(graph, after, count))
        return CUDA_ERROR_INVALID_VALUE;
    struct node *node = graph_add(graph, params->type, &set);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = node_set(node, params);
    if (rc != CUDA_SUCCESS)
        graph_remove(node);
    else
        *out = node;
    return rc;
}

static CUresult add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                         const CUgraphNodeParams *params) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = add(out, graph, after, count, params);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* Tells an alloc node's address by the parameters, as documented. */
CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = add_node(out, graph, after, count, params);
    if (rc == CUDA_SUCCESS && params->type == NODE_MEM_ALLOC)
        params->alloc.dptr = (*out)->alloc.dptr;
    if (rc == CUDA_SUCCESS && params->type == NODE_GRAPH)
        params->graph = (*out)->child;
    return rc;
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params) {
    (void)edges; /* no programmatic launches here: all edges are full dependencies */
    return cuGraphAddNode(out, graph, after, count, params);
}

CUresult cuGraphAddNode_v3(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params) {
    return cuGraphAddNode_v2(out, graph, after, edges, count, params);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_KERNEL, .kernel = *params};
    return add_node(out, graph, after, count, &all);
}

/* The first form ends before the members that the second one added. */
CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *v1) {
    if (!v1)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS params = {
        v1->func,         v1->gridDimX,  v1->gridDimY,  v1->gridDimZ,
        v1->blockDimX,    v1->blockDimY, v1->blockDimZ, v1->sharedMemBytes,
        v1->kernelParams, v1->extra,     NULL,          NULL};
    return cuGraphAddKernelNode_v2(out, graph, after, count, &params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_MEMCPY3D *params, CUcontext context) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_MEMCPY, .memcpy = {0, 0, context, *params}};
    return add_node(out, graph, after, count, &all);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS *params,
                              CUcontext context) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_MEMSET, .memset = {*params, context}};
    return add_node(out, graph, after, count, &all);
}

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                            const CUDA_HOST_NODE_PARAMS *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_HOST, .host = *params};
    return add_node(out, graph, after, count, &all);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                  size_t count, CUgraph child) {
    CUgraphNodeParams all = {.type = NODE_GRAPH, .graph = child};
    return add_node(out, graph, after, count, &all);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                             size_t count) {
    CUgraphNodeParams all = {.type = NODE_EMPTY};
    return add_node(out, graph, after, count, &all);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                   size_t count, CUevent event) {
    CUgraphNodeParams all = {.type = NODE_EVENT_RECORD, .event = event};
    return add_node(out, graph, after, count, &all);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                 size_t count, CUevent event) {
    CUgraphNodeParams all = {.type = NODE_WAIT_EVENT, .event = event};
    return add_node(out, graph, after, count, &all);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_MEM_ALLOC, .alloc = *params};
    CUresult rc = add_node(out, graph, after, count, &all);
    if (rc == CUDA_SUCCESS)
        params->dptr = (*out)->alloc.dptr;
    return rc;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                               size_t count, CUdeviceptr address) {
    CUgraphNodeParams all = {.type = NODE_MEM_FREE, .free = address};
    return add_node(out, graph, after, count, &all);
}

#define GETTER(symbol, type_, params_type, member)                                                 \
    CUresult symbol(CUgraphNode node, params_type *params) {                                       \
        CUresult rc = driver_ready();                                                              \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        pthread_mutex_lock(&driver.lock);                                                          \
        bool good = params && node_is(node) && node->type == (type_);                              \
        if (good)                                                                                  \
            *params = node->member;                                                                \
        pthread_mutex_unlock(&driver.lock);                                                        \
        return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;                                     \
    }

GETTER(cuGraphKernelNodeGetParams_v2, NODE_KERNEL, CUDA_KERNEL_NODE_PARAMS, kernel)
GETTER(cuGraphMemcpyNodeGetParams, NODE_MEMCPY, CUDA_MEMCPY3D, copy)
GETTER(cuGraphMemsetNodeGetParams, NODE_MEMSET, CUDA_MEMSET_NODE_PARAMS, fill)
GETTER(cuGraphHostNodeGetParams, NODE_HOST, CUDA_HOST_NODE_PARAMS, host)
GETTER(cuGraphChildGraphNodeGetGraph, NODE_GRAPH, CUgraph, child)
GETTER(cuGraphMemAllocNodeGetParams, NODE_MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS, alloc)
GETTER(cuGraphMemFreeNodeGetParams, NODE_MEM_FREE, CUdeviceptr, address)
GETTER(cuGraphEventRecordNodeGetEvent, NODE_EVENT_RECORD, CUevent, event)
GETTER(cuGraphEventWaitNodeGetEvent, NODE_WAIT_EVENT, CUevent, event)

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *v1) {
    CUDA_KERNEL_NODE_PARAMS params;
    CUresult rc = v1 ? cuGraphKernelNodeGetParams_v2(node, &params) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *v1 = (CUDA_KERNEL_NODE_PARAMS_v1){
            params.func,         params.gridDimX,  params.gridDimY,  params.gridDimZ,
            params.blockDimX,    params.blockDimY, params.blockDimZ, params.sharedMemBytes,
            params.kernelParams, params.extra};
    return rc;
}
