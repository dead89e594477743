/* Every way to launch is charged: ten kernels of 5 ms take 100 ms at half a card. */
#include "launching.h"

enum { KERNEL_NS = 5000000, LAUNCHES = 10 };

static CUfunction kernel;
static CUstream stream;
static CUcontext context;

static CUresult by_kernel(void) {
    return CUDA(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}
static CUresult by_kernel_ptsz(void) {
    return CUDA(cuLaunchKernel_ptsz)(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}
static CUresult by_config(void) {
    const CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
    return CUDA(cuLaunchKernelEx)(&config, kernel, NULL, NULL);
}
static CUresult by_config_ptsz(void) {
    const CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
    return CUDA(cuLaunchKernelEx_ptsz)(&config, kernel, NULL, NULL);
}
static CUresult cooperative(void) {
    return CUDA(cuLaunchCooperativeKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL);
}
static CUresult cooperative_ptsz(void) {
    return CUDA(cuLaunchCooperativeKernel_ptsz)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL);
}
static CUresult on_devices(void) {
    CUDA_LAUNCH_PARAMS parts = {kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL};
    parts.hStream = FAKE(fake_stream_of)(context);
    return CUDA(cuLaunchCooperativeKernelMultiDevice)(&parts, 1, 0);
}
static CUresult plain(void) { return CUDA(cuLaunch)(kernel); }
static CUresult grid(void) { return CUDA(cuLaunchGrid)(kernel, 1, 1); }
static CUresult grid_async(void) { return CUDA(cuLaunchGridAsync)(kernel, 1, 1, stream); }
static CUresult graph(void) { return CUDA(cuGraphLaunch)((CUgraphExec)(void *)kernel, stream); }
static CUresult graph_ptsz(void) {
    return CUDA(cuGraphLaunch_ptsz)((CUgraphExec)(void *)kernel, stream);
}

static void takes_twice_its_time(const char *name, CUresult (*form)(void)) {
    stream = FAKE_STREAM(2);
    for (int i = 0; i < 4; i++) { /* until its length is known */
        CHECK(form() == CUDA_SUCCESS);
    }
    uint64_t begin = wall_ns();
    for (int i = 0; i < LAUNCHES; i++) {
        CHECK(form() == CUDA_SUCCESS);
    }
    double ms = (double)(wall_ns() - begin) / 1e6;
    fprintf(stderr, "%s: %.0f ms\n", name, ms);
    CHECK(ms > 60 && ms < 300);
}

#define FORM(function)                                                                             \
    kernel = FAKE_KERNEL((uint64_t)KERNEL_NS);                                                     \
    takes_twice_its_time(#function, function)

int main(void) {
    files_make();
    context_make(0);
    CHECK(FAKE(cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
    usage_of_flood(2 * NS_PER_MS, 200 * NS_PER_MS); /* nothing is saved up */
    FORM(by_kernel);
    FORM(by_kernel_ptsz);
    FORM(by_config);
    FORM(by_config_ptsz);
    FORM(cooperative);
    FORM(cooperative_ptsz);
    FORM(on_devices);
    FORM(plain);
    FORM(grid);
    FORM(grid_async);
    FORM(graph);
    FORM(graph_ptsz);
    struct vcuda_ledger_entry did = ledger_did();
    CHECK(did.busy_ns > 500 * NS_PER_MS && did.throttled_ns > 500 * NS_PER_MS);
    CHECK(wall_ns() - did.last_want_ns < NS_PER_S);
    CHECK(ledger_map()->cards[0].measured_ns == did.busy_ns); /* no agent has corrected it */
    return 0;
}
