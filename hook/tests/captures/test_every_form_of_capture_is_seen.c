/* However a capture begins, launches into it are neither measured nor held back; and however it
 * ends, those after it are measured again. */
#include "captures/capturing.h"

int main(void) {
    files_make();
    context_make(0);
    CUgraph graph;
    expect_measured();
    CHECK(FAKE(fake_captured)() == 0);
    CHECK(CUDA(cuStreamBeginRecaptureToGraph)(FAKE_STREAM(1), 0, NULL, NULL, NULL) == CUDA_SUCCESS);
    expect_captured(NS_PER_S, FAKE_STREAM(1));
    CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(1), &graph) == CUDA_SUCCESS);
    CHECK(CUDA(cuStreamBeginCaptureToCig)(FAKE_STREAM(1), NULL) == CUDA_SUCCESS);
    expect_captured(NS_PER_S, FAKE_STREAM(1));
    CHECK(CUDA(cuStreamEndCaptureToCig)(FAKE_STREAM(1)) == CUDA_SUCCESS);
    CHECK(CUDA(cuStreamBeginCapture_v2)(FAKE_STREAM(1), 0) == CUDA_SUCCESS);
    expect_captured(NS_PER_S, FAKE_STREAM(1));
    CHECK(CUDA(cuStreamEndCapture)(FAKE_STREAM(1), &graph) == CUDA_SUCCESS);
    CHECK(FAKE(fake_captured)() == 30);
    return 0;
}
