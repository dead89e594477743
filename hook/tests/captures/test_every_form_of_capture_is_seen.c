/* However a capture begins, launches into it are neither measured nor held back; and however it
 * ends, those after it are measured again. */
#include "launching.h"

static void expect_captured(unsigned expected) {
    uint64_t begin = wall_ns();
    for (int i = 0; i < 10; i++) {
        CHECK(try_launch(NS_PER_S, FAKE_STREAM(1)) == CUDA_SUCCESS);
    }
    CHECK(wall_ns() - begin < 200 * NS_PER_MS);
    CHECK(FAKE(fake_captured)() == expected);
    CHECK(FAKE(fake_capture_violations)() == 0);
}

static void expect_measured(void) {
    unsigned long before = FAKE(fake_events_recorded)();
    for (uint64_t ns = NS_PER_US; FAKE(fake_events_recorded)() == before; ns += NS_PER_US) {
        launch(ns); /* a length that isn't known is measured */
    }
}

int main(void) {
    files_make();
    context_make(0);
    CUgraph graph;
    expect_measured();
    CHECK(CUDA(cuStreamBeginRecaptureToGraph)(FAKE_STREAM(1), 0, NULL, NULL, NULL) == CUDA_SUCCESS);
    expect_captured(10);
    CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(1), &graph) == CUDA_SUCCESS);
    CHECK(CUDA(cuStreamBeginCaptureToCig)(FAKE_STREAM(1), NULL) == CUDA_SUCCESS);
    expect_captured(20);
    CHECK(CUDA(cuStreamEndCaptureToCig)(FAKE_STREAM(1)) == CUDA_SUCCESS);
    CHECK(CUDA(cuStreamBeginCapture_v2)(FAKE_STREAM(1), 0) == CUDA_SUCCESS);
    expect_captured(30);
    CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(1), &graph) == CUDA_SUCCESS);
    return 0;
}
