/* For checks of stream capture: streams that capture, and their results. */
#ifndef SIMGPU_CAPTURING_H
#define SIMGPU_CAPTURING_H

#include "client.h"

static inline CUstream new_stream(unsigned flags) {
    CUstream stream;
    OK(cuStreamCreate(&stream, flags));
    return stream;
}

static inline CUstream capturing(int mode) {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture_v2(stream, mode));
    return stream;
}

static inline int status_of(CUstream stream) {
    int status;
    OK(cuStreamIsCapturing(stream, &status));
    return status;
}

static inline size_t node_count(CUgraph graph) {
    size_t count;
    OK(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

#endif
