/* Executable graphs: instantiated, launched, updated, destroyed. */
#include <stdlib.h>

#include "api.h"
#include "capture.h"
#include "graph.h"
#include "launch.h"

#define FLAGS_KNOWN 0xfULL /* auto free, upload, device launch, node priority */
#define FLAG_DEVICE_LAUNCH 4ULL

static struct graph_exec *execs;

bool exec_is(const struct graph_exec *handle) {
    for (const struct graph_exec *at = execs; at; at = at->next)
        if (at == handle)
            return true;
    return false;
}

/* Of a graph with allocation nodes only one executable copy may exist at a time. */
static bool has_exec(const struct graph *graph) {
    for (const struct graph_exec *at = execs; at; at = at->next)
        if (at->source == graph)
            return true;
    return false;
}

void execs_forget(const struct graph *source) {
    for (struct graph_exec *at = execs; at; at = at->next)
        if (at->source == source)
            at->source = NULL;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    if (!out || !graph_is(graph) || graph->executable || (flags & ~FLAGS_KNOWN) ||
        !graph_is_acyclic(graph))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (graph_has_type(graph, NODE_MEM_ALLOC) && has_exec(graph))
        return CUDA_ERROR_INVALID_VALUE;
    struct graph_exec *exec = calloc(1, sizeof *exec);
    struct graph *copy = exec ? graph_copy(graph) : NULL;
    if (!copy) {
        free(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    copy->executable = true;
    *exec = (struct graph_exec){.next = execs, .graph = copy, .source = graph, .flags = flags};
    *out = execs = exec;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = instantiate(out, graph, flags);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* The log of a refused graph is left empty, the node unnamed. */
CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *wrong, char *log,
                               size_t log_bytes) {
    if (wrong)
        *wrong = NULL;
    if (log && log_bytes)
        log[0] = '\0';
    return cuGraphInstantiateWithFlags(out, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *wrong, char *log,
                            size_t log_bytes) {
    return cuGraphInstantiate_v2(out, graph, wrong, log, log_bytes);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = cuGraphInstantiateWithFlags(out, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = rc == CUDA_SUCCESS ? 0 : rc == CUDA_ERROR_INVALID_VALUE ? 2 : 1;
    if (rc == CUDA_SUCCESS && (params->flags & CU_GRAPH_UPLOAD))
        rc = cuGraphUpload(*out, params->hUploadStream);
    return rc;
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUstream given = params->hUploadStream;
    params->hUploadStream = own_stream(given);
    CUresult rc = cuGraphInstantiateWithParams(out, graph, params);
    params->hUploadStream = given;
    return rc;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    for (struct graph_exec **link = &execs; *link; link = &(*link)->next)
        if (*link == exec) {
            *link = exec->next;
            graph_free(exec->graph);
            free(exec);
            rc = CUDA_SUCCESS;
            break;
        }
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, unsigned long long *flags) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = flags && exec_is(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *flags = exec->flags;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* In a capture, a launched graph becomes a child of the one that is being made. */
static CUresult capture(struct stream *stream, const struct graph_exec *exec) {
    if (graph_has_memory(exec->graph))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct graph *copy = graph_copy(exec->graph);
    struct node *node = copy ? capture_node(stream, NODE_GRAPH) : NULL;
    if (!node) {
        if (copy)
            graph_free(copy);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    copy->child = true;
    node->child = copy;
    return CUDA_SUCCESS;
}

/* Memory that the last launch left allocated. */
static void free_left_over(struct graph *graph) {
    for (struct node *at = graph->nodes; at; at = at->next)
        if (at->type == NODE_MEM_ALLOC && graph_memory_is_taken(at->alloc.dptr))
            graph_memory_give(at->alloc.dptr);
}

static CUresult run(struct graph_exec *exec, struct stream *stream) {
    struct context *context = stream->context;
    uint64_t after = stream_front(stream), end;
    if (driver.state->cards[context->card].lost)
        return CUDA_ERROR_LAUNCH_FAILED;
    if (exec->card == context->card && exec->end_ns > after)
        after = exec->end_ns;
    if (exec->flags & CU_GRAPH_AUTO_FREE)
        free_left_over(exec->graph);
    CUresult rc = graph_run(exec->graph, context, stream, after, &end);
    exec->card = context->card;
    exec->end_ns = end;
    stream_after(stream, end);
    launch_count(context, end);
    return rc;
}

/* The stream that an executable graph is for, when it may take work now. driver.lock held. */
static CUresult enter(struct context *context, const struct graph_exec *exec, CUstream handle,
                      struct stream **stream) {
    *stream = stream_of_handle(context, handle);
    if (!exec_is(exec))
        return CUDA_ERROR_INVALID_VALUE;
    return *stream ? capture_enter(*stream) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
    struct context *context;
    struct stream *stream;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    launch_wait_for_room(context);
    pthread_mutex_lock(&driver.lock);
    rc = enter(context, exec, handle, &stream);
    if (rc == CUDA_SUCCESS)
        rc = stream->capture ? capture(stream, exec) : run(exec, stream);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
    return cuGraphLaunch(exec, own_stream(stream));
}

/* Only checks: an upload costs nothing here. */
CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
    struct context *context;
    struct stream *stream;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = enter(context, exec, handle, &stream);
    if (rc == CUDA_SUCCESS && stream->capture)
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
    return cuGraphUpload(exec, own_stream(stream));
}
