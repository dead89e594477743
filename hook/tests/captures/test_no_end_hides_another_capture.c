/* However a capture ends, also where its stream is destroyed or the driver refuses the end,
 * launches into another capture are neither measured nor held back, and those outside are. */
#include "captures/capturing.h"

enum { UNMATCHED = 903 };
#define KNOWN_NS (50 * NS_PER_MS)

static CUgraph graph;

static void begin(int stream) {
    CHECK(CUDA(cuStreamBeginCapture_v2)(FAKE_STREAM(stream), 2) == CUDA_SUCCESS);
}

static void end(int stream, CUresult expected) {
    CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(stream), &graph) == expected);
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
    expect_captured(KNOWN_NS, FAKE_STREAM(2));
    begin(1);
    CHECK(FAKE(cuStreamDestroy_v2)(FAKE_STREAM(1)) == CUDA_SUCCESS);
    expect_measured();
    expect_captured(KNOWN_NS, FAKE_STREAM(2));
    end(2, CUDA_SUCCESS);
    expect_measured();
    begin(1);
    expect_captured(KNOWN_NS, FAKE_STREAM(1));
    end(1, CUDA_SUCCESS);
    return 0;
}
