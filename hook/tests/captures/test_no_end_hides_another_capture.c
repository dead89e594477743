/* However a capture ends, also where its stream is destroyed or the driver refuses the end,
 * launches into another capture are neither measured nor held back, and those outside are. */
#include "launching.h"

enum { UNMATCHED = 903 };
#define KNOWN_NS (50 * NS_PER_MS)

static CUgraph graph;

static void begin(int stream) {
    CHECK(CUDA(cuStreamBeginCapture_v2)(FAKE_STREAM(stream), 2) == CUDA_SUCCESS);
}

static void end(int stream, CUresult expected) {
    CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(stream), &graph) == expected);
}

static void expect_captured(int stream) {
    unsigned long before = FAKE(fake_captured)();
    uint64_t begun = wall_ns();
    for (int i = 0; i < 10; i++) {
        CHECK(try_launch(KNOWN_NS, FAKE_STREAM(stream)) == CUDA_SUCCESS);
    }
    CHECK(wall_ns() - begun < 200 * NS_PER_MS);
    CHECK(FAKE(fake_captured)() == before + 10);
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
    for (int i = 0; i < 2; i++) { /* measured, it is charged as long as it is */
        launch(KNOWN_NS);
        FAKE(fake_await)(FAKE_STREAM(1));
    }
    begin(2);
    end(3, UNMATCHED); /* it captures nothing */
    expect_captured(2);
    begin(1);
    CHECK(FAKE(cuStreamDestroy_v2)(FAKE_STREAM(1)) == CUDA_SUCCESS);
    expect_measured();
    expect_captured(2);
    end(2, CUDA_SUCCESS);
    expect_measured();
    begin(1);
    expect_captured(1);
    end(1, CUDA_SUCCESS);
    return 0;
}
