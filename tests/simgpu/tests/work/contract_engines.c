/* What copies and fills take, by the card's own clock. Rates: the description's defaults. */
#include <stdbool.h>

#include "checks.h"

#define HOST_BYTES 1000000ULL /* 40 us to the card or back */
#define FILL_BYTES 8156000ULL /* 4 us */

static CUstream stream(void) {
    CUstream made;
    OK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
}

static CUevent record(CUstream where) {
    CUevent event;
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, where));
    return event;
}

static double micros(CUevent begin, CUevent end) {
    float milliseconds;
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, begin, end));
    return (double)milliseconds * 1000;
}

static bool near(double value, double wanted) { return value > wanted - 1 && value < wanted + 4; }

/* Both streams begin when a first kernel is over, so that no gap between the calls is measured. */
static CUevent begin(CUstream first, CUstream second) {
    launch(kernel("empty_100ms"), first);
    CUevent start = record(first);
    OK(cuStreamWaitEvent(second, start, 0));
    return start;
}

static CUdeviceptr memory(size_t bytes) {
    CUdeviceptr address;
    OK(cuMemAlloc_v2(&address, bytes));
    return address;
}

static void a_copy_takes_its_time(void) {
    new_context(0);
    CUdeviceptr device = memory(HOST_BYTES);
    void *host = calloc(1, HOST_BYTES);
    CUstream one = stream(), other = stream();
    CUevent start = begin(one, other);
    OK(cuMemcpyHtoDAsync_v2(device, host, HOST_BYTES, one));
    CUevent middle = record(one);
    OK(cuMemcpyDtoHAsync_v2(host, device, HOST_BYTES, one));
    CUevent end = record(one);
    EXPECT(near(micros(start, middle), 40));
    EXPECT(near(micros(middle, end), 40));
    double before = now_seconds();
    OK(cuMemcpyDtoH_v2(host, device, HOST_BYTES));
    EXPECT(now_seconds() - before >= 4e-5);
}

static void directions_have_an_engine_each(void) {
    new_context(0);
    CUdeviceptr device = memory(2 * HOST_BYTES);
    char *host = calloc(2, HOST_BYTES);
    CUstream one = stream(), other = stream();
    CUevent start = begin(one, other);
    OK(cuMemcpyHtoDAsync_v2(device, host, HOST_BYTES, one));
    OK(cuMemcpyDtoHAsync_v2(host + HOST_BYTES, device + HOST_BYTES, HOST_BYTES, other));
    EXPECT(near(micros(start, record(other)), 40));
    start = begin(one, other);
    OK(cuMemcpyHtoDAsync_v2(device, host, HOST_BYTES, one));
    OK(cuMemcpyHtoDAsync_v2(device + HOST_BYTES, host, HOST_BYTES, other));
    EXPECT(near(micros(start, record(other)), 80));
}

static void kernels_run_beside_copies(void) {
    new_context(0);
    CUdeviceptr device = memory(HOST_BYTES);
    void *host = calloc(1, HOST_BYTES);
    CUstream one = stream(), other = stream();
    CUfunction work = kernel("empty_30us");
    CUevent start = begin(one, other);
    OK(cuMemcpyHtoDAsync_v2(device, host, HOST_BYTES, one));
    CUevent copied = record(one);
    launch(work, other);
    EXPECT(near(micros(start, record(other)), 30));
    EXPECT(near(micros(start, copied), 40));
}

static void a_stream_waits_for_a_copy_elsewhere(void) {
    new_context(0);
    CUdeviceptr device = memory(HOST_BYTES);
    void *host = calloc(1, HOST_BYTES);
    CUstream one = stream(), other = stream();
    CUfunction work = kernel("empty_100us");
    CUevent start = begin(one, other);
    OK(cuMemcpyHtoDAsync_v2(device, host, HOST_BYTES, one));
    OK(cuStreamWaitEvent(other, record(one), 0));
    launch(work, other);
    EXPECT(near(micros(start, record(other)), 140));
}

static void a_fill_takes_its_time(void) {
    new_context(0);
    CUdeviceptr device = memory(FILL_BYTES);
    CUstream one = stream(), other = stream();
    CUevent start = begin(one, other);
    OK(cuMemsetD32Async(device, 1, FILL_BYTES / 4, one));
    EXPECT(near(micros(start, record(one)), 4));
}

static void a_peer_copy_goes_by_the_link(void) {
    CUcontext there = new_context(1), here = new_context(0);
    CUdeviceptr target = memory(3 * HOST_BYTES);
    OK(cuCtxSetCurrent(there));
    CUdeviceptr source = memory(3 * HOST_BYTES);
    OK(cuCtxSetCurrent(here));
    CUstream one = stream(), other = stream();
    CUevent start = begin(one, other);
    OK(cuMemcpyPeerAsync(target, here, source, there, 3 * HOST_BYTES, one)); /* NV12 */
    EXPECT(near(micros(start, record(one)), 10));
    EXPECT_RC(cuMemcpyPeer(target, here, source, NULL, 1), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_graphs_copies_take_their_time(void) {
    CUgraph graph;
    CUgraphExec exec;
    new_context(0);
    CUdeviceptr device = memory(HOST_BYTES);
    void *host = calloc(1, HOST_BYTES);
    CUstream one = stream(), other = stream();
    CUfunction work = kernel("empty_100us");
    OK(cuStreamBeginCapture_v2(one, 0));
    OK(cuMemcpyHtoDAsync_v2(device, host, HOST_BYTES, one));
    launch(work, one);
    OK(cuStreamEndCapture(one, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CUevent start = begin(one, other);
    OK(cuGraphLaunch(exec, one));
    EXPECT(near(micros(start, record(one)), 140));
}

static const struct check checks[] = {
    CHECK(a_copy_takes_its_time),           CHECK(directions_have_an_engine_each),
    CHECK(kernels_run_beside_copies),       CHECK(a_stream_waits_for_a_copy_elsewhere),
    CHECK(a_fill_takes_its_time),           CHECK(a_peer_copy_goes_by_the_link),
    CHECK(a_graphs_copies_take_their_time),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
