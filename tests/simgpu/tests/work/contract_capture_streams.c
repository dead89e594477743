/* Promises of the driver to CUDA programs: captures that several streams take part in. */
#include "capturing.h"
#include "checks.h"

static void streams_fork_and_join_by_events(void) {
    CUevent fork, join;
    CUgraph graph;
    size_t count;
    new_context(0);
    CUfunction function = kernel("f");
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    CUstream side = new_stream(CU_STREAM_NON_BLOCKING), stream = capturing(CAPTURE_GLOBAL);
    launch(function, stream);
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(side, fork, 0));
    EXPECT(status_of(side) == CAPTURE_ACTIVE);
    launch(function, side);
    launch(function, stream);
    OK(cuEventRecord(join, side));
    OK(cuStreamWaitEvent(stream, join, 0));
    launch(function, stream);
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT(status_of(side) == CAPTURE_NONE);
    EXPECT(node_count(graph) == 4);
    OK(cuGraphGetEdges(graph, NULL, NULL, &count));
    EXPECT(count == 4);
    OK(cuGraphGetRootNodes(graph, NULL, &count));
    EXPECT(count == 1);
}

static void a_fork_that_does_not_join_is_an_error(void) {
    CUevent fork;
    CUgraph graph;
    new_context(0);
    CUfunction function = kernel("f");
    OK(cuEventCreate(&fork, 0));
    CUstream side = new_stream(CU_STREAM_NON_BLOCKING), stream = capturing(CAPTURE_GLOBAL);
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(side, fork, 0));
    launch(function, side);
    EXPECT_RC(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

static void captures_do_not_merge_nor_reach_out(void) {
    CUevent event, outside;
    CUgraph graph;
    new_context(0);
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&outside, 0));
    OK(cuEventRecord(outside, NULL));
    CUstream first = capturing(CAPTURE_RELAXED), second = capturing(CAPTURE_RELAXED);
    OK(cuEventRecord(event, first));
    EXPECT_RC(cuStreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    EXPECT_RC(cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_RC(cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    first = capturing(CAPTURE_RELAXED);
    EXPECT_RC(cuStreamWaitEvent(first, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    EXPECT_RC(cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static const struct check checks[] = {
    CHECK(streams_fork_and_join_by_events),
    CHECK(a_fork_that_does_not_join_is_an_error),
    CHECK(captures_do_not_merge_nor_reach_out),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
