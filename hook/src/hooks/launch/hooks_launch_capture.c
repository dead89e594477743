#include "hooks/launch/hooks_launch_capture.h"

enum {
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
};

/* Captures under way in this process. */
static _Atomic uint64_t captures;

bool launch_is_captured(struct driver *driver, const struct gpu_timer_work *work) {
    if (atomic_load(&captures) == 0) {
        return false;
    }
    cuStreamIsCapturing_fn *ask = work->per_thread && REAL(driver, cuStreamIsCapturing_ptsz) != NULL
                                      ? REAL(driver, cuStreamIsCapturing_ptsz)
                                      : REAL(driver, cuStreamIsCapturing);
    int status = 0;
    return ask != NULL && (ask(work->stream, &status) != CUDA_SUCCESS || status != 0);
}

static CUresult begun(CUresult result) {
    if (result == CUDA_SUCCESS) {
        atomic_fetch_add(&captures, 1);
    }
    return result;
}

/* A capture also ends by going wrong. The end of a capture that began unseen leaves the count of
 * the others. */
static CUresult ended(CUresult result) {
    bool over = result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED ||
                result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    uint64_t before = atomic_load(&captures);
    while (over && before != 0 && !atomic_compare_exchange_weak(&captures, &before, before - 1)) {
    }
    return result;
}

CUresult gate_cuStreamBeginCapture(struct driver *driver, bool per_thread, CUstream stream) {
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginCapture)(stream));
}

CUresult gate_cuStreamBeginCapture_v2(struct driver *driver, bool per_thread, CUstream stream,
                                      int mode) {
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginCapture_v2)(stream, mode));
}

CUresult gate_cuStreamBeginCaptureToGraph(struct driver *driver, bool per_thread, CUstream stream,
                                          CUgraph graph, const CUgraphNode *nodes,
                                          const CUgraphEdgeData *edges, size_t count, int mode) {
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginCaptureToGraph)(stream, graph, nodes,
                                                                            edges, count, mode));
}

CUresult gate_cuStreamBeginRecaptureToGraph(struct driver *driver, bool per_thread, CUstream stream,
                                            int mode, CUgraph graph,
                                            CUgraphRecaptureCallback callback, void *data) {
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginRecaptureToGraph)(stream, mode, graph,
                                                                              callback, data));
}

/* Recorded into the command list of a graphics API, which submits it. */
CUresult gate_cuStreamBeginCaptureToCig(struct driver *driver, bool per_thread, CUstream stream,
                                        CUstreamCigCaptureParams *parameters) {
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginCaptureToCig)(stream, parameters));
}

CUresult gate_cuStreamEndCaptureToCig(struct driver *driver, bool per_thread, CUstream stream) {
    return ended(REAL_TWIN(driver, per_thread, cuStreamEndCaptureToCig)(stream));
}

CUresult gate_cuStreamEndCapture(struct driver *driver, bool per_thread, CUstream stream,
                                 CUgraph *graph) {
    return ended(REAL_TWIN(driver, per_thread, cuStreamEndCapture)(stream, graph));
}
