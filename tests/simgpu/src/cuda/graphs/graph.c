/* Graphs as such: made, copied, freed, and their handles recognised. */
#include "graph.h"

#include <stdlib.h>

#include "api.h"

static struct graph *graphs;

struct graph *graph_make(void) {
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->last = &graph->nodes;
    graph->next = graphs;
    graphs = graph;
    return graph;
}

bool graph_is(const struct graph *handle) {
    for (const struct graph *at = graphs; at; at = at->next)
        if (at == handle)
            return true;
    return false;
}

bool node_is(const struct node *handle) {
    for (const struct graph *graph = graphs; graph; graph = graph->next)
        for (const struct node *at = graph->nodes; at; at = at->next)
            if (at == handle)
                return true;
    return false;
}

struct node *graph_add(struct graph *graph, int type, const struct nodes *after) {
    struct node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->graph = graph;
    node->type = type;
    if (!nodes_copy(&node->after, after)) {
        free(node);
        return NULL;
    }
    *graph->last = node;
    graph->last = &node->next;
    return node;
}

static void free_node(struct node *node) {
    if (node->type == NODE_GRAPH && node->child)
        graph_free(node->child);
    if (node->type == NODE_MEM_ALLOC && node->alloc.dptr)
        graph_memory_drop(node->alloc.dptr);
    nodes_clear(&node->after);
    free(node);
}

void graph_remove(struct node *node) {
    struct graph *graph = node->graph;
    for (struct node *at = graph->nodes; at; at = at->next)
        for (size_t i = 0; i < at->after.count; i++)
            if (at->after.items[i] == node)
                at->after.items[i--] = at->after.items[--at->after.count];
    for (struct node **link = &graph->nodes; *link; link = &(*link)->next)
        if (*link == node) {
            *link = node->next;
            if (graph->last == &node->next)
                graph->last = link;
            break;
        }
    free_node(node);
}

void graph_free(struct graph *graph) {
    for (struct graph **link = &graphs; *link; link = &(*link)->next)
        if (*link == graph) {
            *link = graph->next;
            break;
        }
    execs_forget(graph);
    while (graph->nodes) {
        struct node *next = graph->nodes->next;
        free_node(graph->nodes);
        graph->nodes = next;
    }
    free(graph);
}

struct node *graph_copy_of(const struct graph *graph, const struct node *original) {
    for (struct node *at = graph->nodes; at; at = at->next)
        if (at->origin == original)
            return at;
    return NULL;
}

static bool copy_node(struct graph *copy, const struct node *from) {
    struct nodes none = {NULL, 0};
    struct node *node = graph_add(copy, from->type, &none);
    if (!node)
        return false;
    struct node kept = *node;
    *node = *from;
    node->next = NULL;
    node->graph = copy;
    node->origin = from;
    node->after = kept.after;
    if (from->type == NODE_MEM_ALLOC)
        graph_memory_hold(from->alloc.dptr);
    if (from->type == NODE_GRAPH) {
        node->child = graph_copy(from->child);
        if (!node->child)
            return false;
        node->child->child = true;
    }
    for (size_t i = 0; i < from->after.count; i++)
        if (!nodes_add(&node->after, graph_copy_of(copy, from->after.items[i])))
            return false;
    return true;
}

/* Edges may lead to nodes that come later, so nodes are copied in an order that has them last. */
struct graph *graph_copy(const struct graph *graph) {
    struct graph *copy = graph_make();
    if (!copy)
        return NULL;
    copy->origin = graph;
    size_t left = 1;
    while (left > 0) {
        bool moved = false;
        left = 0;
        for (const struct node *at = graph->nodes; at; at = at->next) {
            bool ready = !graph_copy_of(copy, at);
            for (size_t i = 0; ready && i < at->after.count; i++)
                ready = graph_copy_of(copy, at->after.items[i]) != NULL;
            if (ready && !(moved = copy_node(copy, at)))
                goto failed;
            left += !graph_copy_of(copy, at);
        }
        if (left > 0 && !moved)
            goto failed; /* a cycle */
    }
    return copy;
failed:
    graph_free(copy);
    return NULL;
}

bool graph_has_type(const struct graph *graph, int type) {
    for (const struct node *at = graph->nodes; at; at = at->next)
        if (at->type == type || (at->type == NODE_GRAPH && graph_has_type(at->child, type)))
            return true;
    return false;
}

bool graph_has_memory(const struct graph *graph) {
    return graph_has_type(graph, NODE_MEM_ALLOC) || graph_has_type(graph, NODE_MEM_FREE);
}

bool graph_may_free(const struct graph *graph, uint64_t address) {
    for (const struct node *at = graph->nodes; at; at = at->next)
        if (at->type == NODE_MEM_FREE && at->address == address)
            return false;
    return graph_memory_is_node(address);
}

CUresult cuGraphCreate(CUgraph *out, unsigned flags) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct graph *graph = graph_make();
    pthread_mutex_unlock(&driver.lock);
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = graph;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    if (!graph_is(handle) || handle->child || handle->executable)
        rc = CUDA_ERROR_INVALID_VALUE;
    else
        graph_free(handle);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphClone(CUgraph *out, CUgraph handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    if (!out || !graph_is(handle))
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (graph_has_memory(handle))
        rc = CUDA_ERROR_NOT_SUPPORTED; /* graphs with memory nodes cannot be cloned */
    else if (!(*out = graph_copy(handle)))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct node *found = out && graph_is(clone) ? graph_copy_of(clone, original) : NULL;
    if (found)
        *out = found;
    pthread_mutex_unlock(&driver.lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
