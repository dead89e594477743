#include "hooks/launch/hooks_launch_capture.h"

#include "memory/process.h"
#include "shared/sys.h"

enum {
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
};

/* Of this process: a child has none. */
struct captures {
    _Atomic uint64_t under_way;
    _Atomic uint32_t launches; /* into captures, before the driver's return */
    _Atomic uint32_t ends;     /* that wait for those, or are being made */
};

/* Of the calling thread; several cards' parts are one launch. */
static __thread uint32_t launches_here;

static struct captures *captures_of_process(void) {
    static void *_Atomic only;
    return process_memory(&only, sizeof(struct captures));
}

static void yield(void) { sys_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0); }

static void begin_launch(struct captures *captures) {
    atomic_fetch_add(&captures->launches, 1);
    while (launches_here == 0 && atomic_load(&captures->ends) != 0) {
        atomic_fetch_sub(&captures->launches, 1);
        yield();
        atomic_fetch_add(&captures->launches, 1);
    }
    launches_here++;
}

void launch_end_captured(void) {
    launches_here--;
    atomic_fetch_sub(&captures_of_process()->launches, 1);
}

bool launch_begin_captured(struct driver *driver, const struct gpu_timer_work *work) {
    struct captures *captures = captures_of_process();
    if (captures == NULL || atomic_load(&captures->under_way) == 0) {
        return false;
    }
    cuStreamIsCapturing_fn *ask = work->per_thread && REAL(driver, cuStreamIsCapturing_ptsz) != NULL
                                      ? REAL(driver, cuStreamIsCapturing_ptsz)
                                      : REAL(driver, cuStreamIsCapturing);
    int status = 0;
    begin_launch(captures);
    if (ask != NULL && (ask(work->stream, &status) != CUDA_SUCCESS || status != 0)) {
        return true;
    }
    launch_end_captured();
    return false;
}

static CUresult begun(CUresult result) {
    struct captures *captures = captures_of_process();
    if (result == CUDA_SUCCESS && captures != NULL) {
        atomic_fetch_add(&captures->under_way, 1);
    }
    return result;
}

/* A launch that was let pass as a captured one would run otherwise. */
static void await_launches(void) {
    struct captures *captures = captures_of_process();
    if (captures != NULL) {
        atomic_fetch_add(&captures->ends, 1);
        while (atomic_load(&captures->launches) > launches_here) {
            yield();
        }
    }
}

/* A capture also ends by going wrong. The end of a capture that began unseen leaves the count of
 * the others. */
static CUresult ended(CUresult result) {
    struct captures *captures = captures_of_process();
    if (captures == NULL) {
        return result;
    }
    bool over = result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED ||
                result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    uint64_t before = atomic_load(&captures->under_way);
    while (over && before != 0 &&
           !atomic_compare_exchange_weak(&captures->under_way, &before, before - 1)) {
    }
    atomic_fetch_sub(&captures->ends, 1);
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
    await_launches();
    return ended(REAL_TWIN(driver, per_thread, cuStreamEndCaptureToCig)(stream));
}

CUresult gate_cuStreamEndCapture(struct driver *driver, bool per_thread, CUstream stream,
                                 CUgraph *graph) {
    await_launches();
    return ended(REAL_TWIN(driver, per_thread, cuStreamEndCapture)(stream, graph));
}
