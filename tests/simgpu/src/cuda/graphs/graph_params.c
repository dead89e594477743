/* The work of nodes: checked when it is given, as by the real driver. */
#include "api.h"
#include "graph.h"
#include "launch.h"

static CUresult set_kernel(struct node *node, const CUDA_KERNEL_NODE_PARAMS *kernel) {
    uint64_t duration_ns;
    CUresult rc = launch_check(kernel, &duration_ns);
    if (rc != CUDA_SUCCESS)
        return rc;
    node->kernel = *kernel;
    node->duration_ns = duration_ns;
    return CUDA_SUCCESS;
}

/* Copies to and from arrays are not simulated in graphs. */
static CUresult set_copy(struct node *node, const CUDA_MEMCPY3D *copy) {
    if (copy->srcMemoryType == 3 || copy->dstMemoryType == 3)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (copy->srcMemoryType < 1 || copy->srcMemoryType > 4 || copy->dstMemoryType < 1 ||
        copy->dstMemoryType > 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (!copy->WidthInBytes || !copy->Height || !copy->Depth)
        return CUDA_ERROR_INVALID_VALUE;
    node->copy = *copy;
    return CUDA_SUCCESS;
}

static CUresult set_fill(struct node *node, const CUDA_MEMSET_NODE_PARAMS *fill) {
    unsigned size = fill->elementSize;
    if ((size != 1 && size != 2 && size != 4) || !fill->width || !fill->height || !fill->dst)
        return CUDA_ERROR_INVALID_VALUE;
    node->fill = *fill;
    return CUDA_SUCCESS;
}

static CUresult set_host(struct node *node, const CUDA_HOST_NODE_PARAMS *host) {
    if (!host->fn)
        return CUDA_ERROR_INVALID_VALUE;
    node->host = *host;
    return CUDA_SUCCESS;
}

static CUresult set_child(struct node *node, const struct graph *child) {
    if (!graph_is(child) || child == node->graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (graph_has_memory(child))
        return CUDA_ERROR_NOT_SUPPORTED; /* it cannot be used in a child node */
    struct graph *copy = graph_copy(child);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (node->child)
        graph_free(node->child);
    copy->child = true;
    node->child = copy;
    return CUDA_SUCCESS;
}

static CUresult set_event(struct node *node, CUevent event) {
    if (!event_is(event))
        return CUDA_ERROR_INVALID_HANDLE;
    node->event = event;
    return CUDA_SUCCESS;
}

/* The address is the node's from now on; memory comes when it runs. */
static CUresult set_alloc(struct node *node, const CUDA_MEM_ALLOC_NODE_PARAMS *alloc) {
    uint64_t address = 0;
    if (alloc->poolProps.allocType != CU_MEM_ALLOCATION_PINNED || alloc->poolProps.handleTypes ||
        alloc->poolProps.location.type != CU_MEM_LOCATION_DEVICE || !alloc->bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = graph_memory_node(alloc->poolProps.location.id, alloc->bytesize, &address);
    if (rc != CUDA_SUCCESS)
        return rc;
    node->alloc = *alloc;
    node->alloc.dptr = address;
    return CUDA_SUCCESS;
}

CUresult node_set(struct node *node, const CUgraphNodeParams *params) {
    if (params->type != node->type)
        return CUDA_ERROR_INVALID_VALUE;
    switch (params->type) {
    case NODE_KERNEL:
        return set_kernel(node, &params->kernel);
    case NODE_MEMCPY:
        return set_copy(node, &params->memcpy.copyParams);
    case NODE_MEMSET:
        return set_fill(node, &params->memset.params);
    case NODE_HOST:
        return set_host(node, &params->host);
    case NODE_GRAPH:
        return set_child(node, params->graph);
    case NODE_EMPTY:
        return CUDA_SUCCESS;
    case NODE_WAIT_EVENT:
    case NODE_EVENT_RECORD:
        return set_event(node, params->event);
    case NODE_MEM_ALLOC:
        return set_alloc(node, &params->alloc);
    case NODE_MEM_FREE:
        if (!graph_may_free(node->graph, params->free))
            return CUDA_ERROR_INVALID_VALUE;
        node->address = params->free;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED; /* semaphores, batches of memory operations, conditions */
    }
}

/* A node of a graph (exec NULL), or the executable copy's node that was made from it. */
static CUresult change(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    if (!node_is(node) || (exec && !exec_is(exec)))
        rc = CUDA_ERROR_INVALID_VALUE;
    struct node *target = node;
    if (rc == CUDA_SUCCESS && exec)
        target = graph_copy_of(exec->graph, node);
    bool memory = params->type == NODE_MEM_ALLOC || params->type == NODE_MEM_FREE;
    if (rc == CUDA_SUCCESS && (!target || memory || (!exec && node->graph->executable)))
        rc = CUDA_ERROR_INVALID_VALUE; /* memory nodes keep their parameters */
    if (rc == CUDA_SUCCESS)
        rc = node_set(target, params);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params) {
    return params ? change(NULL, node, params) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params) {
    return params && exec ? change(exec, node, params) : CUDA_ERROR_INVALID_VALUE;
}

static CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v1 *v1) {
    return (CUgraphNodeParams){
        .type = NODE_KERNEL,
        .kernel = {v1->func, v1->gridDimX, v1->gridDimY, v1->gridDimZ, v1->blockDimX, v1->blockDimY,
                   v1->blockDimZ, v1->sharedMemBytes, v1->kernelParams, v1->extra, NULL, NULL}};
}

/* The four setters of a kind: of a node, and of an executable graph's. */
#define SETTERS(kind, type_, params_type, member)                                                  \
    CUresult cuGraph##kind##NodeSetParams(CUgraphNode node, const params_type *params) {           \
        if (!params)                                                                               \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        CUgraphNodeParams all = {.type = type_, .member = *params};                                \
        return change(NULL, node, &all);                                                           \
    }

SETTERS(Memcpy, NODE_MEMCPY, CUDA_MEMCPY3D, memcpy.copyParams)
SETTERS(Memset, NODE_MEMSET, CUDA_MEMSET_NODE_PARAMS, memset.params)
SETTERS(Host, NODE_HOST, CUDA_HOST_NODE_PARAMS, host)

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_KERNEL, .kernel = *params};
    return change(NULL, node, &all);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = kernel_params(params);
    return change(NULL, node, &all);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params) {
    if (!params || !exec)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_KERNEL, .kernel = *params};
    return change(exec, node, &all);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
    if (!params || !exec)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = kernel_params(params);
    return change(exec, node, &all);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D *params, CUcontext context) {
    if (!params || !exec)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_MEMCPY, .memcpy = {0, 0, context, *params}};
    return change(exec, node, &all);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context) {
    if (!params || !exec)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_MEMSET, .memset = {*params, context}};
    return change(exec, node, &all);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS *params) {
    if (!params || !exec)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = NODE_HOST, .host = *params};
    return change(exec, node, &all);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
    CUgraphNodeParams all = {.type = NODE_GRAPH, .graph = child};
    return exec ? change(exec, node, &all) : CUDA_ERROR_INVALID_VALUE;
}
