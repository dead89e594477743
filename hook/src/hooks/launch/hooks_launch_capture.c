#include "hooks/launch/hooks_launch_capture.h"

#include "limiter/gpu_timer_events.h"
#include "memory/process.h"
#include "shared/sys.h"

/* Of this process: wiped in a child. */
struct captures {
    _Atomic bool seen;        /* a begin or an end, of any */
    _Atomic uint32_t holders; /* calls that went by the state of a stream, before their end */
    _Atomic uint32_t changes; /* of such a state, that wait for those, or are being made */
};

/* Of the calling thread: several cards' parts are one launch, and a capture may call back. */
static __thread uint32_t holders_here, changes_here;

static struct captures *captures_of_process(void) {
    static void *_Atomic only;
    return process_memory(&only, sizeof(struct captures));
}

static void leave_holders(struct captures *captures, uint32_t count) {
    atomic_fetch_sub(&captures->holders, count);
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
        leave_holders(captures, 1);
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
        leave_holders(captures, 1);
    }
}

/* Captures aren't counted: one also ends with its stream, with its context, or by going wrong. */
bool launch_begin_captured(struct driver *driver, const struct gpu_timer_work *work) {
    struct captures *captures = captures_of_process();
    if (captures == NULL || !atomic_load(&captures->seen) ||
        gpu_timer_events_may_record(driver, work)) {
        return false;
    }
    captures_hold(); /* it may have changed before */
    if (gpu_timer_events_may_record(driver, work)) {
        captures_let_go();
        return false;
    }
    return true;
}

/* Otherwise a launch that was let pass as a captured one would run, and memory that was given back
 * in the ledger would go into a graph. Returns what the thread itself holds, for end_change: a call
 * of its own that calls back has been told its stream's state by then. It counts as held no more,
 * or two such threads would wait for each other. */
static uint32_t begin_change(void) {
    struct captures *captures = captures_of_process();
    uint32_t own = holders_here, holders;
    if (captures == NULL) {
        return 0;
    }
    atomic_store(&captures->seen, true);
    atomic_fetch_add(&captures->changes, 1);
    changes_here++;
    holders_here = 0;
    leave_holders(captures, own);
    while ((holders = atomic_load(&captures->holders)) != 0) {
        sys_wait(&captures->holders, holders);
    }
    return own;
}

/* After the driver's answer, which the function returns. */
static CUresult end_change(uint32_t own, CUresult result) {
    struct captures *captures = captures_of_process();
    if (captures == NULL || changes_here == 0) {
        return result; /* there was no memory when it began */
    }
    atomic_fetch_add(&captures->holders, own);
    holders_here = own;
    changes_here--;
    if (atomic_fetch_sub(&captures->changes, 1) == 1) {
        sys_wake_all(&captures->changes);
    }
    return result;
}

CUresult gate_cuStreamBeginCapture(struct driver *driver, bool per_thread, CUstream stream) {
    uint32_t own = begin_change();
    return end_change(own, REAL_TWIN(driver, per_thread, cuStreamBeginCapture)(stream));
}

CUresult gate_cuStreamBeginCapture_v2(struct driver *driver, bool per_thread, CUstream stream,
                                      int mode) {
    uint32_t own = begin_change();
    return end_change(own, REAL_TWIN(driver, per_thread, cuStreamBeginCapture_v2)(stream, mode));
}

CUresult gate_cuStreamBeginCaptureToGraph(struct driver *driver, bool per_thread, CUstream stream,
                                          CUgraph graph, const CUgraphNode *nodes,
                                          const CUgraphEdgeData *edges, size_t count, int mode) {
    uint32_t own = begin_change();
    return end_change(own, REAL_TWIN(driver, per_thread, cuStreamBeginCaptureToGraph)(
                               stream, graph, nodes, edges, count, mode));
}

CUresult gate_cuStreamBeginRecaptureToGraph(struct driver *driver, bool per_thread, CUstream stream,
                                            int mode, CUgraph graph,
                                            CUgraphRecaptureCallback callback, void *data) {
    uint32_t own = begin_change();
    return end_change(own, REAL_TWIN(driver, per_thread, cuStreamBeginRecaptureToGraph)(
                               stream, mode, graph, callback, data));
}

/* Recorded into the command list of a graphics API, which submits it. */
CUresult gate_cuStreamBeginCaptureToCig(struct driver *driver, bool per_thread, CUstream stream,
                                        CUstreamCigCaptureParams *parameters) {
    uint32_t own = begin_change();
    return end_change(own,
                      REAL_TWIN(driver, per_thread, cuStreamBeginCaptureToCig)(stream, parameters));
}

CUresult gate_cuStreamEndCaptureToCig(struct driver *driver, bool per_thread, CUstream stream) {
    uint32_t own = begin_change();
    return end_change(own, REAL_TWIN(driver, per_thread, cuStreamEndCaptureToCig)(stream));
}

CUresult gate_cuStreamEndCapture(struct driver *driver, bool per_thread, CUstream stream,
                                 CUgraph *graph) {
    uint32_t own = begin_change();
    return end_change(own, REAL_TWIN(driver, per_thread, cuStreamEndCapture)(stream, graph));
}
