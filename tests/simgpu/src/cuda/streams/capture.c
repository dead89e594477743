/* Captures, the calls that they forbid, and the nodes that come from calls. The rules are those of
 * the CUDA documentation: README.md, "Rules and their sources". */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "entry.h"

static struct capture *captures;
static unsigned capture_count; /* calls look for captures only while there are some */
static __thread int thread_mode = CAPTURE_GLOBAL;

/* Potentially unsafe calls: they may synchronise, or depend on the order of other work. The
 * documentation names cudaMalloc and cudaEventQuery; the others are of the same kinds. */
static const char *const unsafe[] = {
    "cuMemAlloc",          "cuMemAllocPitch", "cuMemAllocManaged",
    "cuMemAllocHost",      "cuMemHostAlloc",  "cuMemHostRegister",
    "cuMemHostUnregister", "cuMemFree",       "cuMemFreeHost",
    "cuArrayCreate",       "cuArray3DCreate", "cuArrayDestroy",
    "cuMipmappedArray",    "cuStreamQuery",   "cuStreamSynchronize",
    "cuCtxSynchronize",    "cuModuleLoad",    "cuModuleUnload",
    "cuLibraryLoad",       "cuLibraryUnload", "cuMemcpyHtoD",
    "cuMemcpyDtoH",        "cuMemcpyDtoD",    "cuMemcpy",
    "cuMemPoolTrimTo",     "cuCtxDestroy",    "cuDevicePrimaryCtxReset",
};

/* By base name: versions and per-thread twins are the same call; …Async is another call, and so is
 * a query that only begins with that name. */
static bool is_unsafe(const char *symbol) {
    static const char *const more[] = {"",          "_",        "Data",   "DataEx",
                                       "FatBinary", "FromFile", "Create", "Destroy"};
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++) {
        size_t length = strlen(unsafe[i]);
        if (strncmp(symbol, unsafe[i], length) != 0)
            continue;
        for (size_t j = 0; j < sizeof more / sizeof more[0]; j++) {
            if (j == 1 ? symbol[length] == '_' : strcmp(symbol + length, more[j]) == 0)
                return true;
        }
    }
    return false;
}

void capture_invalidate(struct capture *capture) { capture->invalid = true; }

/* Whether a capture forbids this thread unsafe calls. */
static bool forbids(const struct capture *capture) {
    bool own = capture->thread == stream_thread();
    if (thread_mode == CAPTURE_RELAXED || capture->mode == CAPTURE_RELAXED)
        return false;
    return own || (thread_mode == CAPTURE_GLOBAL && capture->mode == CAPTURE_GLOBAL);
}

CUresult capture_unsafe(void) {
    CUresult rc = CUDA_SUCCESS;
    for (struct capture *at = captures; at; at = at->next)
        if (forbids(at)) {
            capture_invalidate(at);
            rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return rc;
}

CUresult capture_check(unsigned index) {
    if (__atomic_load_n(&capture_count, __ATOMIC_ACQUIRE) == 0 || !is_unsafe(entries[index].symbol))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&driver.lock);
    CUresult rc = capture_unsafe();
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

struct capture *capture_of(unsigned long long id) {
    for (struct capture *at = captures; at; at = at->next)
        if (at->id == id)
            return at;
    return NULL;
}

/* The legacy stream would wait for the blocking streams of its context: not while one captures. */
static struct capture *blocking_capture(const struct context *context) {
    for (const struct stream *at = context->streams; at; at = at->next)
        if (at->capture && !(at->flags & CU_STREAM_NON_BLOCKING))
            return at->capture;
    return NULL;
}

CUresult capture_enter(struct stream *stream) {
    if (stream->capture)
        return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    struct context *context = stream->context;
    struct capture *blocking = stream == &context->legacy ? blocking_capture(context) : NULL;
    if (!blocking)
        return CUDA_SUCCESS;
    capture_invalidate(blocking);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult capture_refuse_wait(struct stream *stream) {
    if (!stream->capture)
        return capture_enter(stream);
    CUresult rc = capture_enter(stream);
    capture_invalidate(stream->capture);
    return rc == CUDA_SUCCESS ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : rc;
}

CUresult capture_refuse_context(const struct context *context) {
    CUresult rc = CUDA_SUCCESS;
    for (struct capture *at = captures; at; at = at->next)
        if (at->context == context) {
            capture_invalidate(at);
            rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return rc;
}

struct node *capture_node(struct stream *stream, int type) {
    struct node *node = graph_add(stream->capture->graph, type, &stream->tips);
    if (!node)
        return NULL;
    nodes_clear(&stream->tips);
    return nodes_add(&stream->tips, node) ? node : NULL;
}

CUresult capture_join(struct stream *stream, struct capture *capture, const struct nodes *tips) {
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture && stream->capture != capture) {
        capture_invalidate(capture);
        capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream == &stream->context->legacy) {
        capture_invalidate(capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!nodes_merge(&stream->tips, tips))
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->capture = capture;
    return CUDA_SUCCESS;
}

void capture_leave(struct stream *stream) {
    if (stream->capture)
        capture_invalidate(stream->capture);
    stream->capture = NULL;
    nodes_clear(&stream->tips);
}

static CUresult begin(CUstream handle, int mode, struct graph *graph, const struct nodes *tips) {
    static unsigned long long next_id = 1;
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    struct stream *stream = stream_of_handle(context, handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream == &stream->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *capture = calloc(1, sizeof *capture);
    struct graph *own = capture && !graph ? graph_make() : graph;
    if (!capture || !own || (tips && !nodes_copy(&stream->tips, tips))) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture =
        (struct capture){captures, next_id++,     own,  stream->context, stream, stream_thread(),
                         mode,     graph != NULL, false};
    captures = stream->capture = capture;
    __atomic_add_fetch(&capture_count, 1, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

/* All streams that joined must have come back to the one that began. */
static bool is_joined(const struct capture *capture, const struct stream *origin) {
    for (struct context *context = driver.contexts; context; context = context->next)
        for (const struct stream *at = context->streams; at; at = at->next)
            for (size_t i = 0; at != origin && at->capture == capture && i < at->tips.count; i++)
                if (!nodes_lead_from(&origin->tips, at->tips.items[i]))
                    return false;
    return true;
}

static void finish(struct capture *capture) {
    for (struct context *context = driver.contexts; context; context = context->next)
        for (struct stream *at = context->streams; at; at = at->next)
            if (at->capture == capture) {
                at->capture = NULL;
                nodes_clear(&at->tips);
            }
    for (struct capture **link = &captures; *link; link = &(*link)->next)
        if (*link == capture) {
            *link = capture->next;
            break;
        }
    __atomic_sub_fetch(&capture_count, 1, __ATOMIC_RELEASE);
    free(capture);
}

static CUresult end(CUstream handle, CUgraph *out) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct stream *stream = stream_of_handle(context, handle);
    struct capture *capture = stream ? stream->capture : NULL;
    if (!stream || !out)
        return stream ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->mode != CAPTURE_RELAXED && capture->thread != stream_thread())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->origin != stream) {
        capture_invalidate(capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->invalid)
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(capture, stream))
        rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *out = rc == CUDA_SUCCESS ? capture->graph : NULL;
    if (rc != CUDA_SUCCESS && !capture->borrowed)
        graph_free(capture->graph);
    finish(capture);
    return rc;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    pthread_mutex_lock(&driver.lock);
    CUresult rc = begin(stream, mode, NULL, NULL);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                     const CUgraphEdgeData *edges, size_t count, int mode) {
    (void)edges; /* no programmatic launches here: all edges are full dependencies */
    struct nodes tips = {(struct node **)(uintptr_t)after, count};
    pthread_mutex_lock(&driver.lock);
    CUresult rc = CUDA_SUCCESS;
    if (!graph_is(graph) || (count && !after))
        rc = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; rc == CUDA_SUCCESS && i < count; i++)
        if (!node_is(after[i]) || after[i]->graph != graph)
            rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = begin(stream, mode, graph, &tips);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    pthread_mutex_lock(&driver.lock);
    CUresult rc = end(stream, graph);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
    if (!mode || *mode < CAPTURE_GLOBAL || *mode > CAPTURE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
