/* Promises of the driver to CUDA programs: stream capture. */
#include <pthread.h>

#include "capturing.h"
#include "checks.h"

/* Runs a function on a thread that has the context. */
static CUcontext shared;
static void *(*part)(void);
static void *thread_main(void *unused) {
    (void)unused;
    OK(cuCtxSetCurrent(shared));
    return part();
}
static void on_a_thread(void *(*function)(void)) {
    pthread_t thread;
    part = function;
    OK(cuCtxGetCurrent(&shared));
    EXPECT(pthread_create(&thread, NULL, thread_main, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

static void captured_work_does_not_run(void) {
    CUgraph graph;
    CUdeviceptr memory;
    unsigned value = 7;
    new_context(0);
    OK(cuMemAlloc_v2(&memory, 4));
    CUfunction function = kernel("step_5s");
    CUstream stream = capturing(CAPTURE_GLOBAL);
    EXPECT(status_of(stream) == CAPTURE_ACTIVE);
    launch(function, stream);
    OK(cuMemsetD32Async(memory, 9, 1, stream));
    OK(cuMemcpyDtoHAsync_v2(&value, memory, 4, stream));
    EXPECT(value == 7);
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT(status_of(stream) == CAPTURE_NONE);
    EXPECT(node_count(graph) == 3);
    OK(cuStreamQuery(stream)); /* the 5 s were never queued */
}

static void the_legacy_stream_cannot_be_captured(void) {
    new_context(0);
    EXPECT_RC(cuStreamBeginCapture_v2(NULL, CAPTURE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CAPTURE_GLOBAL));
    EXPECT_RC(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CAPTURE_GLOBAL),
              CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_RC(cuStreamBeginCapture_v2(new_stream(0), 3), CUDA_ERROR_INVALID_VALUE);
}

static void an_end_without_a_begin_is_refused(void) {
    CUgraph graph;
    new_context(0);
    EXPECT_RC(cuStreamEndCapture(new_stream(0), &graph), CUDA_ERROR_ILLEGAL_STATE);
}

static void unsafe_calls_break_their_own_capture(void) {
    CUdeviceptr memory;
    CUgraph graph;
    new_context(0);
    CUfunction function = kernel("f");
    CUstream stream = capturing(CAPTURE_THREAD_LOCAL);
    EXPECT_RC(cuMemAlloc_v2(&memory, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(status_of(stream) == CAPTURE_INVALIDATED);
    EXPECT_RC(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_RC(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT(graph == NULL);
    EXPECT(status_of(stream) == CAPTURE_NONE);
    OK(cuMemAlloc_v2(&memory, 1));
}

static CUevent old_event;
static int wanted;
static int mode_of_thread = -1;
static void *query_the_old_event(void) {
    int mode = mode_of_thread;
    if (mode >= 0)
        OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_RC(cuEventQuery(old_event), wanted);
    return NULL;
}

static void expect_from_a_thread(int capture_mode, int thread_mode, CUresult rc) {
    CUgraph graph;
    CUstream stream = capturing(capture_mode);
    wanted = rc;
    mode_of_thread = thread_mode;
    on_a_thread(query_the_old_event);
    EXPECT_RC(cuStreamEndCapture(stream, &graph),
              rc == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void modes_say_what_other_threads_may_do(void) {
    new_context(0);
    OK(cuEventCreate(&old_event, 0));
    CUresult refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    expect_from_a_thread(CAPTURE_GLOBAL, -1, refused);
    expect_from_a_thread(CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CUDA_SUCCESS);
    expect_from_a_thread(CAPTURE_GLOBAL, CAPTURE_RELAXED, CUDA_SUCCESS);
    expect_from_a_thread(CAPTURE_THREAD_LOCAL, -1, CUDA_SUCCESS);
    expect_from_a_thread(CAPTURE_RELAXED, -1, CUDA_SUCCESS);
}

static void a_relaxed_thread_may_do_unsafe_things_while_it_captures(void) {
    CUdeviceptr memory;
    CUgraph graph;
    int mode = CAPTURE_RELAXED;
    new_context(0);
    CUstream stream = capturing(CAPTURE_GLOBAL);
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode == CAPTURE_GLOBAL);
    OK(cuMemAlloc_v2(&memory, 1));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode == CAPTURE_RELAXED);
    OK(cuStreamEndCapture(stream, &graph));
    mode = 3;
    EXPECT_RC(cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_INVALID_VALUE);
}

static void a_captured_stream_cannot_be_waited_for(void) {
    CUgraph graph;
    int mode = CAPTURE_RELAXED;
    new_context(0);
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CUstream stream = capturing(CAPTURE_GLOBAL);
    EXPECT_RC(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(status_of(stream) == CAPTURE_INVALIDATED);
    EXPECT_RC(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    EXPECT_RC(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_RC(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void a_captured_event_cannot_be_asked(void) {
    CUevent event;
    CUgraph graph;
    new_context(0);
    OK(cuEventCreate(&event, 0));
    CUstream stream = capturing(CAPTURE_RELAXED);
    OK(cuEventRecord(event, stream));
    EXPECT_RC(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    EXPECT_RC(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_RC(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuEventRecord(event, stream)); /* a new record makes it an event again */
    OK(cuEventSynchronize(event));
}

static void the_legacy_stream_breaks_a_blocking_capture(void) {
    int status;
    CUgraph graph;
    new_context(0);
    CUfunction function = kernel("f");
    CUstream stream = new_stream(0);
    OK(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    EXPECT_RC(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT(status_of(stream) == CAPTURE_ACTIVE);
    EXPECT_RC(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
              CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_RC(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUstream free_running = capturing(CAPTURE_RELAXED);
    launch(function, NULL);
    OK(cuStreamEndCapture(free_running, &graph));
}

static CUstream threads_stream;
static void *end_on_another_thread(void) {
    CUgraph graph;
    EXPECT_RC(cuStreamEndCapture(threads_stream, &graph), wanted);
    return NULL;
}

static void only_a_relaxed_capture_ends_on_another_thread(void) {
    new_context(0);
    threads_stream = capturing(CAPTURE_GLOBAL);
    wanted = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    on_a_thread(end_on_another_thread);
    EXPECT(status_of(threads_stream) == CAPTURE_ACTIVE);
    threads_stream = capturing(CAPTURE_RELAXED);
    wanted = CUDA_SUCCESS;
    on_a_thread(end_on_another_thread);
}

static void a_capture_tells_its_graph_and_its_tips(void) {
    unsigned long long id, again;
    CUgraph graph, ended;
    const CUgraphNode *after;
    CUgraphNode empty;
    size_t count;
    int status;
    new_context(0);
    CUfunction function = kernel("f");
    CUstream stream = capturing(CAPTURE_GLOBAL);
    OK(cuStreamGetCaptureInfo(stream, &status, &id));
    launch(function, stream);
    OK(cuStreamGetCaptureInfo_v2(stream, &status, &again, &graph, &after, &count));
    EXPECT(status == CAPTURE_ACTIVE && again == id && count == 1);
    OK(cuGraphAddEmptyNode(&empty, graph, after, count));
    OK(cuStreamUpdateCaptureDependencies(stream, &empty, 1, 1));
    launch(function, stream);
    OK(cuStreamEndCapture(stream, &ended));
    EXPECT(ended == graph && node_count(graph) == 3);
    OK(cuGraphNodeGetDependentNodes(empty, NULL, &count));
    EXPECT(count == 1);
}

static void captured_allocations_are_nodes(void) {
    CUdeviceptr memory;
    CUgraph graph;
    CUgraphExec exec;
    new_context(0);
    CUstream stream = capturing(CAPTURE_GLOBAL);
    OK(cuMemAllocAsync(&memory, 32 * MIB, stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamEndCapture(stream, &graph));
    size_t before = free_bytes();
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    EXPECT(before - free_bytes() == 32 * MIB); /* kept in reserve */
}

static const struct check checks[] = {
    CHECK(captured_work_does_not_run),
    CHECK(the_legacy_stream_cannot_be_captured),
    CHECK(an_end_without_a_begin_is_refused),
    CHECK(unsafe_calls_break_their_own_capture),
    CHECK(modes_say_what_other_threads_may_do),
    CHECK(a_relaxed_thread_may_do_unsafe_things_while_it_captures),
    CHECK(a_captured_stream_cannot_be_waited_for),
    CHECK(a_captured_event_cannot_be_asked),
    CHECK(the_legacy_stream_breaks_a_blocking_capture),
    CHECK(only_a_relaxed_capture_ends_on_another_thread),
    CHECK(a_capture_tells_its_graph_and_its_tips),
    CHECK(captured_allocations_are_nodes),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
