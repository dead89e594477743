/* Runs a graph: every node is queued where the last of those before it ends, so that branches
 * overlap as on a card with room for all of them. driver.lock held throughout. */
#include "api.h"
#include "graph.h"
#include "launch.h"

struct run {
    struct context *context;
    struct stream *stream;
    uint64_t base_ns; /* nothing begins before */
};

static uint64_t start_of(const struct node *node, uint64_t base_ns) {
    uint64_t start = base_ns;
    for (size_t i = 0; i < node->after.count; i++)
        if (node->after.items[i]->end_ns > start)
            start = node->after.items[i]->end_ns;
    return start;
}

static bool is_ready(const struct node *node) {
    if (node->done)
        return false;
    for (size_t i = 0; i < node->after.count; i++)
        if (!node->after.items[i]->done)
            return false;
    return true;
}

static struct node *next_ready(struct graph *graph) {
    for (struct node *at = graph->nodes; at; at = at->next)
        if (is_ready(at))
            return at;
    return NULL;
}

static void start_over(struct graph *graph) {
    for (struct node *at = graph->nodes; at; at = at->next)
        at->done = false;
}

bool graph_is_acyclic(struct graph *graph) {
    start_over(graph);
    for (struct node *at = next_ready(graph); at; at = next_ready(graph))
        at->done = true;
    for (const struct node *at = graph->nodes; at; at = at->next)
        if (!at->done || (at->type == NODE_GRAPH && !graph_is_acyclic(at->child)))
            return false;
    return true;
}

static uint64_t address_of(unsigned type, const void *host, CUdeviceptr device) {
    return type == 1 ? (uint64_t)(uintptr_t)host : device;
}

static CUresult do_copy(const CUDA_MEMCPY3D *copy, struct context *context, uint64_t *end_ns) {
    uint64_t from = address_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice);
    uint64_t to = address_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice);
    size_t from_pitch = copy->srcPitch ? copy->srcPitch : copy->srcXInBytes + copy->WidthInBytes;
    size_t to_pitch = copy->dstPitch ? copy->dstPitch : copy->dstXInBytes + copy->WidthInBytes;
    size_t from_height = copy->srcHeight ? copy->srcHeight : copy->srcY + copy->Height;
    size_t to_height = copy->dstHeight ? copy->dstHeight : copy->dstY + copy->Height;
    CUresult rc = CUDA_SUCCESS;
    for (size_t z = 0; z < copy->Depth && rc == CUDA_SUCCESS; z++)
        for (size_t y = 0; y < copy->Height && rc == CUDA_SUCCESS; y++) {
            uint64_t source = ((copy->srcZ + z) * from_height + copy->srcY + y) * from_pitch;
            uint64_t target = ((copy->dstZ + z) * to_height + copy->dstY + y) * to_pitch;
            rc = copy_now(to + target + copy->dstXInBytes, from + source + copy->srcXInBytes,
                          copy->WidthInBytes);
        }
    if (rc == CUDA_SUCCESS)
        *end_ns =
            copy_queue(context, *end_ns, to, from, copy->WidthInBytes * copy->Height * copy->Depth);
    return rc;
}

static CUresult do_fill(const CUDA_MEMSET_NODE_PARAMS *fill, struct context *context,
                        uint64_t *end_ns) {
    CUresult rc = CUDA_SUCCESS;
    for (size_t row = 0; row < fill->height && rc == CUDA_SUCCESS; row++)
        rc = fill_now(fill->dst + row * fill->pitch, fill->value, fill->elementSize, fill->width);
    if (rc == CUDA_SUCCESS)
        *end_ns = fill_queue(context, *end_ns, fill->elementSize * fill->width * fill->height);
    return rc;
}

static CUresult do_node(struct node *node, const struct run *run) {
    uint64_t start = start_of(node, run->base_ns);
    node->end_ns = start;
    if (node->disabled)
        return CUDA_SUCCESS;
    switch (node->type) {
    case NODE_KERNEL:
        node->end_ns = context_queue(run->context, start, node->duration_ns);
        return CUDA_SUCCESS;
    case NODE_MEMCPY:
        return do_copy(&node->copy, run->context, &node->end_ns);
    case NODE_MEMSET:
        return do_fill(&node->fill, run->context, &node->end_ns);
    case NODE_HOST:
        return callback_queue(run->stream, start, node->host.fn, node->host.userData);
    case NODE_GRAPH:
        return graph_run(node->child, run->context, run->stream, start, &node->end_ns);
    case NODE_EVENT_RECORD:
        return event_mark_at(node->event, run->context, start);
    case NODE_WAIT_EVENT:
        if (event_target(node->event, run->context) > start)
            node->end_ns = event_target(node->event, run->context);
        return CUDA_SUCCESS;
    case NODE_MEM_ALLOC:
        return graph_memory_take(node->alloc.dptr);
    case NODE_MEM_FREE:
        return graph_memory_give(node->address);
    default:
        return CUDA_SUCCESS; /* an empty node */
    }
}

CUresult graph_run(struct graph *graph, struct context *context, struct stream *stream,
                   uint64_t after_ns, uint64_t *end_ns) {
    struct run run = {context, stream, after_ns};
    CUresult rc = CUDA_SUCCESS;
    start_over(graph);
    *end_ns = after_ns;
    for (struct node *at = next_ready(graph); at && rc == CUDA_SUCCESS; at = next_ready(graph)) {
        rc = do_node(at, &run);
        at->done = true;
        if (at->end_ns > *end_ns)
            *end_ns = at->end_ns;
    }
    return rc;
}
