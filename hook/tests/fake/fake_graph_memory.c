/*
 * The allocations of the fake driver's graphs. A node gets the address of one that is freed in the
 * same graph, if it fits there. The memory that an uploaded graph takes is in use until a call
 * synchronises, and reserved until the device is trimmed.
 */
#include "fake_driver.h"
#include "fake_launch.h"

enum { MAX_GRAPHS = 32, MAX_NODES = 64 };

struct CUgraphNode_st {
    int type;
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
    CUgraph child;
    bool freed;
};

struct CUgraph_st {
    struct CUgraphNode_st nodes[MAX_NODES];
    unsigned count;
};

struct CUgraphExec_st {
    unsigned long long bytes[FAKE_CARDS];
    bool in_use;
};

static struct CUgraph_st graphs[MAX_GRAPHS];
static struct CUgraphExec_st execs[MAX_GRAPHS];
static unsigned graph_count, exec_count;
static unsigned long long reserved[FAKE_CARDS], used[FAKE_CARDS];
static CUdeviceptr next_pointer = UINT64_C(1) << 44;

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags) {
    *graph = &graphs[graph_count++];
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *parameters) {
    (void)after, (void)count;
    parameters->dptr = 0;
    for (unsigned i = 0; i < graph->count && parameters->dptr == 0; i++) {
        struct CUgraphNode_st *other = &graph->nodes[i];
        if (other->freed && other->parameters.bytesize >= parameters->bytesize) {
            parameters->dptr = other->parameters.dptr;
            other->freed = false;
        }
    }
    if (parameters->dptr == 0) {
        parameters->dptr = next_pointer;
        next_pointer += parameters->bytesize * 2;
    }
    *node = &graph->nodes[graph->count++];
    **node =
        (struct CUgraphNode_st){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .parameters = *parameters};
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                               size_t count, CUdeviceptr pointer) {
    (void)after, (void)count;
    for (unsigned i = 0; i < graph->count; i++) {
        if (graph->nodes[i].parameters.dptr == pointer) {
            graph->nodes[i].freed = true;
        }
    }
    *node = &graph->nodes[graph->count++];
    **node = (struct CUgraphNode_st){.type = 11};
    return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                  size_t count, CUgraph child) {
    (void)after, (void)count;
    *node = &graph->nodes[graph->count++];
    **node = (struct CUgraphNode_st){.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = child};
    return CUDA_SUCCESS;
}

cuGraphGetNodes_fn cuGraphGetNodes;
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    for (unsigned i = 0; nodes != NULL && i < graph->count; i++) {
        nodes[i] = &graph->nodes[i];
    }
    *count = graph->count;
    return CUDA_SUCCESS;
}

cuGraphNodeGetType_fn cuGraphNodeGetType;
CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
    *type = node->type;
    return CUDA_SUCCESS;
}

cuGraphMemAllocNodeGetParams_fn cuGraphMemAllocNodeGetParams;
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *parameters) {
    *parameters = node->parameters;
    return CUDA_SUCCESS;
}

cuGraphChildGraphNodeGetGraph_fn cuGraphChildGraphNodeGetGraph;
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
    *graph = node->child;
    return CUDA_SUCCESS;
}

/* Each address once: here nodes share a whole block only. */
static void sum_up(const struct CUgraph_st *graph, struct CUgraphExec_st *exec) {
    for (unsigned i = 0; i < graph->count; i++) {
        const CUDA_MEM_ALLOC_NODE_PARAMS *own = &graph->nodes[i].parameters;
        bool seen = false;
        for (unsigned other = 0; other < i; other++) {
            seen = seen || graph->nodes[other].parameters.dptr == own->dptr;
        }
        if (graph->nodes[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !seen) {
            exec->bytes[own->poolProps.location.id] += own->bytesize;
        } else if (graph->nodes[i].type == CU_GRAPH_NODE_TYPE_GRAPH) {
            sum_up(graph->nodes[i].child, exec);
        }
    }
}

bool fake_graph_is_made(CUgraphExec exec) { return exec >= execs && exec < execs + MAX_GRAPHS; }

CUresult fake_graph_take(CUgraphExec exec) {
    fake_lock();
    CUresult result = fake_allocate_call();
    for (unsigned i = 0; result == CUDA_SUCCESS && !exec->in_use && i < FAKE_CARDS; i++) {
        used[i] += exec->bytes[i];
        if (used[i] > reserved[i]) {
            fake_use(used[i] - reserved[i]);
            reserved[i] = used[i];
        }
    }
    exec->in_use = exec->in_use || result == CUDA_SUCCESS;
    fake_unlock();
    return result;
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph) {
    *exec = &execs[exec_count++];
    sum_up(graph, *exec);
    fake_take_turn();
    return CUDA_SUCCESS;
}

cuGraphInstantiate_fn cuGraphInstantiate, cuGraphInstantiate_v2;
CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log,
                            size_t log_bytes) {
    (void)failed, (void)log, (void)log_bytes;
    return instantiate(exec, graph);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log,
                               size_t log_bytes) {
    (void)failed, (void)log, (void)log_bytes;
    return instantiate(exec, graph);
}

cuGraphInstantiateWithFlags_fn cuGraphInstantiateWithFlags;
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, cuuint64_t flags) {
    (void)flags;
    return instantiate(exec, graph);
}

cuGraphInstantiateWithParams_fn cuGraphInstantiateWithParams;
CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
    bool upload = (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
    CUresult result = instantiate(exec, graph);
    return upload ? fake_graph_take(*exec) : result;
}

cuGraphExecDestroy_fn cuGraphExecDestroy;
CUresult cuGraphExecDestroy(CUgraphExec exec) {
    for (unsigned i = 0; exec->in_use && i < FAKE_CARDS; i++) {
        used[i] -= exec->bytes[i];
    }
    *exec = (struct CUgraphExec_st){.in_use = false};
    return CUDA_SUCCESS;
}

cuGraphUpload_fn cuGraphUpload, cuGraphUpload_ptsz;
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    (void)stream;
    return fake_graph_take(exec);
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
    return cuGraphUpload(exec, stream);
}

void fake_graphs_synchronized(void) {
    for (unsigned i = 0; i < MAX_GRAPHS; i++) {
        execs[i].in_use = false;
    }
    for (unsigned i = 0; i < FAKE_CARDS; i++) {
        used[i] = 0;
    }
}

cuDeviceGraphMemTrim_fn cuDeviceGraphMemTrim;
CUresult cuDeviceGraphMemTrim(CUdevice device) {
    fake_lock();
    fake_unuse(reserved[device] - used[device]);
    reserved[device] = used[device];
    fake_unlock();
    return CUDA_SUCCESS;
}

cuDeviceGetGraphMemAttribute_fn cuDeviceGetGraphMemAttribute;
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value) {
    *(cuuint64_t *)value =
        attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ? used[device] : reserved[device];
    return CUDA_SUCCESS;
}
