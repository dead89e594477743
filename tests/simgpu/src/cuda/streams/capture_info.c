/* Answers of a stream about its capture, and the per-thread twins. */
#include "api.h"
#include "capture.h"

/* The legacy stream cannot tell while a blocking stream of its context captures; the question
 * breaks no capture, as documented. driver.lock held. */
static CUresult find(CUstream handle, struct stream **stream) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    *stream = stream_of_handle(context, handle);
    if (!*stream)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct stream *at = (*stream)->context->streams; at; at = at->next)
        if (*stream == &at->context->legacy && at->capture && !(at->flags & CU_STREAM_NON_BLOCKING))
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

static int status_of(const struct stream *stream) {
    if (!stream->capture)
        return CAPTURE_NONE;
    return stream->capture->invalid ? CAPTURE_INVALIDATED : CAPTURE_ACTIVE;
}

/* Every place but the status is optional; the nodes stay good until the stream's next call. */
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, int *status, unsigned long long *id,
                                   CUgraph *graph, const CUgraphNode **after, size_t *count) {
    struct stream *stream;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    CUresult rc = find(handle, &stream);
    if (rc == CUDA_SUCCESS) {
        *status = status_of(stream);
        bool active = *status == CAPTURE_ACTIVE;
        if (active && id)
            *id = stream->capture->id;
        if (active && graph)
            *graph = stream->capture->graph;
        if (active && after)
            *after = stream->tips.items;
        if (active && count)
            *count = stream->tips.count;
    }
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int *status, unsigned long long *id,
                                   CUgraph *graph, const CUgraphNode **after,
                                   const CUgraphEdgeData **edges, size_t *count) {
    if (edges)
        *edges = NULL; /* no edge here has data of its own */
    return cuStreamGetCaptureInfo_v2(stream, status, id, graph, after, count);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, unsigned long long *id) {
    return cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    return cuStreamGetCaptureInfo(stream, status, NULL);
}

static CUresult update(CUstream handle, const CUgraphNode *nodes, size_t count, unsigned flags) {
    struct stream *stream;
    CUresult rc = find(handle, &stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (flags > 1 || (count && !nodes))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!node_is(nodes[i]) || nodes[i]->graph != stream->capture->graph)
            return CUDA_ERROR_INVALID_VALUE;
    struct nodes set = {(struct node **)(uintptr_t)nodes, count};
    bool ok = flags == 1 ? nodes_copy(&stream->tips, &set) : nodes_merge(&stream->tips, &set);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count,
                                           unsigned flags) {
    pthread_mutex_lock(&driver.lock);
    CUresult rc = update(stream, nodes, count, flags);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes,
                                              const CUgraphEdgeData *edges, size_t count,
                                              unsigned flags) {
    (void)edges;
    return cuStreamUpdateCaptureDependencies(stream, nodes, count, flags);
}

/* Before CUDA 10.1: the mode was global. */
CUresult cuStreamBeginCapture(CUstream stream) {
    return cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
    return cuStreamBeginCapture(own_stream(stream));
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode) {
    return cuStreamBeginCapture_v2(own_stream(stream), mode);
}
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                          const CUgraphEdgeData *edges, size_t count, int mode) {
    return cuStreamBeginCaptureToGraph(own_stream(stream), graph, after, edges, count, mode);
}
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    return cuStreamEndCapture(own_stream(stream), graph);
}
CUresult cuStreamIsCapturing_ptsz(CUstream stream, int *status) {
    return cuStreamIsCapturing(own_stream(stream), status);
}
CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, int *status, unsigned long long *id) {
    return cuStreamGetCaptureInfo(own_stream(stream), status, id);
}
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, int *status, unsigned long long *id,
                                        CUgraph *graph, const CUgraphNode **after, size_t *count) {
    return cuStreamGetCaptureInfo_v2(own_stream(stream), status, id, graph, after, count);
}
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, int *status, unsigned long long *id,
                                        CUgraph *graph, const CUgraphNode **after,
                                        const CUgraphEdgeData **edges, size_t *count) {
    return cuStreamGetCaptureInfo_v3(own_stream(stream), status, id, graph, after, edges, count);
}
CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *nodes, size_t count,
                                                unsigned flags) {
    return cuStreamUpdateCaptureDependencies(own_stream(stream), nodes, count, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode *nodes,
                                                   const CUgraphEdgeData *edges, size_t count,
                                                   unsigned flags) {
    return cuStreamUpdateCaptureDependencies_v2(own_stream(stream), nodes, edges, count, flags);
}
