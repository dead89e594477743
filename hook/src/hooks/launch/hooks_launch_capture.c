#include "hooks/launch/hooks_launch_capture.h"

#include "memory/process.h"
#include "shared/sys.h"

enum {
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
};

/* Of this process: wiped in a child. */
struct captures {
    _Atomic uint64_t under_way;
    _Atomic uint32_t holders; /* calls that went by the state of a stream, before their end */
    _Atomic uint32_t changes; /* of such a state, that wait for those, or are being made */
};

/* Of the calling thread: several cards' parts are one launch, and a capture may call back. */
static __thread uint32_t holders_here, changes_here;

static struct captures *captures_of_process(void) {
    static void *_Atomic only;
    return process_memory(&only, sizeof(struct captures));
}

static bool captures_are_under_way(void) {
    struct captures *captures = captures_of_process();
    return captures != NULL && atomic_load(&captures->under_way) != 0;
}

static void leave_holders(struct captures *captures) {
    atomic_fetch_sub(&captures->holders, 1);
    if (atomic_load(&captures->changes) != 0) {
        sys_wake_all(&captures->holders);
    }
}

/* Who waits sleeps: threads that looked again and again would seldom all be no holders at the same
 * moment, and the change that they wait for might never find it. */
void captures_hold(void) {
    struct captures *captures = captures_of_process();
    uint32_t changes = 0;
    if (captures == NULL) {
        return;
    }
    atomic_fetch_add(&captures->holders, 1);
    while (holders_here + changes_here == 0 && (changes = atomic_load(&captures->changes)) != 0) {
        leave_holders(captures);
        sys_wait(&captures->changes, changes);
        atomic_fetch_add(&captures->holders, 1);
    }
    holders_here++;
}

/* Where there was no memory when it began, it holds nothing. */
void captures_let_go(void) {
    struct captures *captures = captures_of_process();
    if (captures != NULL && holders_here != 0) {
        holders_here--;
        leave_holders(captures);
    }
}

bool launch_begin_captured(struct driver *driver, const struct gpu_timer_work *work) {
    if (!captures_are_under_way()) {
        return false;
    }
    cuStreamIsCapturing_fn *ask = work->per_thread && REAL(driver, cuStreamIsCapturing_ptsz) != NULL
                                      ? REAL(driver, cuStreamIsCapturing_ptsz)
                                      : REAL(driver, cuStreamIsCapturing);
    int status = 0;
    captures_hold();
    if (ask != NULL && (ask(work->stream, &status) != CUDA_SUCCESS || status != 0)) {
        return true;
    }
    captures_let_go();
    return false;
}

/* Otherwise a launch that was let pass as a captured one would run, and memory that was given back
 * in the ledger would go into a graph. */
static void begin_change(void) {
    struct captures *captures = captures_of_process();
    if (captures != NULL) {
        atomic_fetch_add(&captures->changes, 1);
        changes_here++;
        uint32_t holders = 0;
        while ((holders = atomic_load(&captures->holders)) > holders_here) {
            sys_wait(&captures->holders, holders);
        }
    }
}

static void end_change(struct captures *captures) {
    if (changes_here == 0) {
        return; /* there was no memory when it began */
    }
    changes_here--;
    if (atomic_fetch_sub(&captures->changes, 1) == 1) {
        sys_wake_all(&captures->changes);
    }
}

static CUresult begun(CUresult result) {
    struct captures *captures = captures_of_process();
    if (captures != NULL) {
        atomic_fetch_add(&captures->under_way, result == CUDA_SUCCESS);
        end_change(captures);
    }
    return result;
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
    end_change(captures);
    return result;
}

CUresult gate_cuStreamBeginCapture(struct driver *driver, bool per_thread, CUstream stream) {
    begin_change();
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginCapture)(stream));
}

CUresult gate_cuStreamBeginCapture_v2(struct driver *driver, bool per_thread, CUstream stream,
                                      int mode) {
    begin_change();
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginCapture_v2)(stream, mode));
}

CUresult gate_cuStreamBeginCaptureToGraph(struct driver *driver, bool per_thread, CUstream stream,
                                          CUgraph graph, const CUgraphNode *nodes,
                                          const CUgraphEdgeData *edges, size_t count, int mode) {
    begin_change();
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginCaptureToGraph)(stream, graph, nodes,
                                                                            edges, count, mode));
}

CUresult gate_cuStreamBeginRecaptureToGraph(struct driver *driver, bool per_thread, CUstream stream,
                                            int mode, CUgraph graph,
                                            CUgraphRecaptureCallback callback, void *data) {
    begin_change();
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginRecaptureToGraph)(stream, mode, graph,
                                                                              callback, data));
}

/* Recorded into the command list of a graphics API, which submits it. */
CUresult gate_cuStreamBeginCaptureToCig(struct driver *driver, bool per_thread, CUstream stream,
                                        CUstreamCigCaptureParams *parameters) {
    begin_change();
    return begun(REAL_TWIN(driver, per_thread, cuStreamBeginCaptureToCig)(stream, parameters));
}

CUresult gate_cuStreamEndCaptureToCig(struct driver *driver, bool per_thread, CUstream stream) {
    begin_change();
    return ended(REAL_TWIN(driver, per_thread, cuStreamEndCaptureToCig)(stream));
}

CUresult gate_cuStreamEndCapture(struct driver *driver, bool per_thread, CUstream stream,
                                 CUgraph *graph) {
    begin_change();
    return ended(REAL_TWIN(driver, per_thread, cuStreamEndCapture)(stream, graph));
}
