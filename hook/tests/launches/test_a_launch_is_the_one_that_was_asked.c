/* A launch's arguments in a struct are read once: what goes to the driver is what was let pass, as
 * going into a capture, also where another thread changes the struct meanwhile. */
#include "launching.h"

static CUstream stream;
static CUlaunchConfig config;
static CUDA_LAUNCH_PARAMS part;

/* As another thread would, between the look at the stream and the driver's. */
static void change(void) { config.hStream = part.hStream = FAKE_STREAM(1); }

static void launch_configured(void) {
    CHECK(CUDA(cuLaunchKernelEx)(&config, FAKE_KERNEL(NS_PER_S), NULL, NULL) == CUDA_SUCCESS);
}

static void launch_parts(void) {
    CHECK(CUDA(cuLaunchCooperativeKernelMultiDevice)(&part, 1, 0) == CUDA_SUCCESS);
}

static void expect_captured(void (*launch_it)(void)) {
    CUgraph graph;
    unsigned long before = FAKE(fake_captured)();
    config = (CUlaunchConfig){1, 1, 1, 32, 1, 1, .hStream = stream};
    part = (CUDA_LAUNCH_PARAMS){FAKE_KERNEL(NS_PER_S), 1, 1, 1, 32, 1, 1, .hStream = stream};
    CHECK(CUDA(cuStreamBeginCapture_v2)(stream, 0) == CUDA_SUCCESS);
    FAKE(fake_give_turn)(change);
    launch_it();
    CHECK(config.hStream == FAKE_STREAM(1));
    CHECK(FAKE(fake_captured)() == before + 1);
    CHECK(FAKE(fake_busy_ns)() == 0);
    CHECK(CUDA(cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS);
}

int main(void) {
    CUcontext context;
    files_make();
    context_make(0);
    CHECK(FAKE(cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
    stream = FAKE(fake_stream_of)(context);
    expect_captured(launch_configured);
    expect_captured(launch_parts);
    return 0;
}
