#include "hooks/graph_spans.h"

#include <string.h>
#include <sys/mman.h>

#include "shared/sys.h"

/* The depth of child graphs within child graphs that are read. */
enum { MAX_DEPTH = 8 };

struct span {
    uint64_t begin, end;
};

/* Spans in order, none touching another, in memory of this call. */
struct spans {
    struct driver *driver;
    CUdevice device;
    struct span *places;
    size_t count, capacity;
};

static void *take_memory(size_t bytes) {
    return sys_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static bool make_room(struct spans *spans) {
    if (spans->count < spans->capacity) {
        return true;
    }
    size_t capacity = spans->capacity == 0 ? 256 : spans->capacity * 2;
    struct span *grown = take_memory(capacity * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    if (spans->places != NULL) {
        memcpy(grown, spans->places, spans->count * sizeof *grown);
        sys_unmap(spans->places, spans->capacity * sizeof *grown);
    }
    spans->places = grown;
    spans->capacity = capacity;
    return true;
}

static void add(struct spans *spans, uint64_t begin, uint64_t end) {
    struct span *places = spans->places;
    size_t first = 0, past;
    for (size_t high = spans->count; first < high;) { /* the first that ends at `begin` or later */
        size_t middle = (first + high) / 2;
        if (places[middle].end < begin) {
            first = middle + 1;
        } else {
            high = middle;
        }
    }
    for (past = first; past < spans->count && places[past].begin <= end; past++) {
        begin = places[past].begin < begin ? places[past].begin : begin;
        end = places[past].end > end ? places[past].end : end;
    }
    memmove(&places[first + 1], &places[past], (spans->count - past) * sizeof *places);
    places[first] = (struct span){.begin = begin, .end = end};
    spans->count = spans->count + 1 - (past - first);
}

static void add_allocation(struct spans *spans, CUgraphNode node) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
    memset(&parameters, 0, sizeof parameters);
    if (REAL(spans->driver, cuGraphMemAllocNodeGetParams)(node, &parameters) == CUDA_SUCCESS &&
        parameters.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        (spans->device == GRAPH_ANY_DEVICE || parameters.poolProps.location.id == spans->device) &&
        make_room(spans)) {
        add(spans, parameters.dptr, parameters.dptr + parameters.bytesize);
    }
}

static void add_graph(struct spans *spans, CUgraph graph, unsigned depth);

static void add_node(struct spans *spans, CUgraphNode node, unsigned depth) {
    cuGraphChildGraphNodeGetGraph_fn *get_child =
        REAL(spans->driver, cuGraphChildGraphNodeGetGraph);
    CUgraph child;
    int type = 0;
    if (REAL(spans->driver, cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS) {
        return;
    }
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        add_allocation(spans, node);
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < MAX_DEPTH && get_child != NULL &&
               get_child(node, &child) == CUDA_SUCCESS) {
        add_graph(spans, child, depth + 1);
    }
}

static void add_graph(struct spans *spans, CUgraph graph, unsigned depth) {
    cuGraphGetNodes_fn *get = REAL(spans->driver, cuGraphGetNodes);
    size_t count = 0;
    if (get(graph, NULL, &count) != CUDA_SUCCESS || count == 0) {
        return;
    }
    size_t bytes = count * sizeof(CUgraphNode);
    CUgraphNode *nodes = take_memory(bytes);
    if (nodes == NULL) {
        return;
    }
    if (get(graph, nodes, &count) == CUDA_SUCCESS) {
        for (size_t i = 0; i < count; i++) {
            add_node(spans, nodes[i], depth);
        }
    }
    sys_unmap(nodes, bytes);
}

uint64_t graph_span_bytes(struct driver *driver, CUgraph graph, CUdevice device) {
    struct spans spans = {.driver = driver, .device = device};
    uint64_t bytes = 0;
    if (REAL(driver, cuGraphGetNodes) == NULL || REAL(driver, cuGraphNodeGetType) == NULL ||
        REAL(driver, cuGraphMemAllocNodeGetParams) == NULL) {
        return 0;
    }
    add_graph(&spans, graph, 0);
    for (size_t i = 0; i < spans.count; i++) {
        bytes += spans.places[i].end - spans.places[i].begin;
    }
    if (spans.places != NULL) {
        sys_unmap(spans.places, spans.capacity * sizeof *spans.places);
    }
    return bytes;
}
