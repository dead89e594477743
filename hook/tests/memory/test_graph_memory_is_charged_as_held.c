/* The memory of graphs: taken when they are uploaded or launched, kept until it is trimmed. */
#include "support.h"

#define FUNCTION(name) ((__typeof__(name) *)cuda_function(#name))

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == CONTEXT_BYTES + bytes); }

static CUgraph made(void) {
    CUgraph graph;
    CHECK(FUNCTION(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS);
    return graph;
}

static CUdeviceptr add(CUgraph graph, size_t bytes, int device) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = {
        .poolProps.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
        .bytesize = bytes};
    CUgraphNode node;
    CHECK(FUNCTION(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &parameters) == CUDA_SUCCESS);
    return parameters.dptr;
}

static void add_free(CUgraph graph, CUdeviceptr pointer) {
    CUgraphNode node;
    CHECK(FUNCTION(cuGraphAddMemFreeNode)(&node, graph, NULL, 0, pointer) == CUDA_SUCCESS);
}

static CUgraphExec executable(CUgraph graph) {
    CUgraphExec exec;
    CHECK(CUDA(cuGraphInstantiateWithFlags)(&exec, graph, 0) == CUDA_SUCCESS);
    return exec;
}

static CUgraphExec allocating(size_t bytes) {
    CUgraph graph = made();
    add(graph, bytes, 0);
    return executable(graph);
}

static void upload(CUgraphExec exec) { CHECK(CUDA(cuGraphUpload)(exec, NULL) == CUDA_SUCCESS); }

static void synchronize(void) { CHECK(CUDA(cuCtxSynchronize)() == CUDA_SUCCESS); }

static void trim(void) { CHECK(CUDA(cuDeviceGraphMemTrim)(0) == CUDA_SUCCESS); }

static void expect_from_upload_to_trim(void) {
    CUgraphExec first = allocating(100 * MIB), second = allocating(60 * MIB);
    expect(0);
    upload(first);
    expect(100 * MIB);
    CHECK(CUDA(cuGraphLaunch)(first, NULL) == CUDA_SUCCESS);
    expect(100 * MIB);
    synchronize();
    upload(second); /* takes what the first has left */
    expect(100 * MIB);
    CHECK(CUDA(cuGraphUpload_ptsz)(first, NULL) == CUDA_SUCCESS); /* at the same time */
    expect(160 * MIB);
    trim();
    expect(160 * MIB);
    synchronize();
    trim();
    expect(0);
    CHECK(CUDA(cuGraphLaunch)(first, NULL) == CUDA_SUCCESS);
    expect(100 * MIB);
    synchronize();
    trim();
}

/* Allocations that follow each other in a graph have one address. */
static void expect_reuse_within(void) {
    CUgraph graph = made(), parent = made();
    CUgraphNode node;
    CUdeviceptr first = add(graph, 300 * MIB, 0);
    add_free(graph, first);
    CHECK(add(graph, 280 * MIB, 0) == first);
    add(graph, 8 * MIB, 1);
    CHECK(FUNCTION(cuGraphAddChildGraphNode)(&node, parent, NULL, 0, graph) == CUDA_SUCCESS);
    upload(executable(parent));
    expect(300 * MIB);
    synchronize();
    trim();
    expect(0);
    CHECK(CUDA(cuDeviceGraphMemTrim)(1) == CUDA_SUCCESS);
}

static void expect_limit(void) {
    unsigned long (*calls)(void) = (unsigned long (*)(void))cuda_function("fake_allocations");
    void (*fail_next)(CUresult) = (void (*)(CUresult))cuda_function("fake_fail_next");
    CUgraphExec large = allocating(SHARE_BYTES), fitting = allocating(400 * MIB);
    CUgraphExec other = allocating(300 * MIB);
    unsigned long before = calls();
    CHECK(CUDA(cuGraphUpload)(large, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(calls() == before);
    fail_next(999);
    CHECK(CUDA(cuGraphUpload)(fitting, NULL) == 999);
    expect(0);
    upload(fitting);
    CHECK(CUDA(cuGraphUpload)(other, NULL) == CUDA_ERROR_OUT_OF_MEMORY); /* beside the first */
    synchronize();
    upload(other); /* after it */
    expect(400 * MIB);
    synchronize();
    /* Idle memory of graphs is no reason to refuse. */
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    expect(0);
}

static void expect_upload_at_instantiation(void) {
    unsigned long long (*in_use)(void) = (unsigned long long (*)(void))cuda_function("fake_in_use");
    CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
    CUgraph graph = made(), large = made();
    CUgraphExec exec;
    add(graph, 100 * MIB, 0);
    add(large, SHARE_BYTES, 0);
    CHECK(CUDA(cuGraphInstantiateWithParams)(&exec, graph, &parameters) == CUDA_SUCCESS);
    expect(100 * MIB);
    synchronize();
    trim();
    CHECK(CUDA(cuGraphInstantiateWithParams)(&exec, large, &parameters) ==
          CUDA_ERROR_OUT_OF_MEMORY);
    expect(0);
    CHECK(in_use() == 0);
}

/* A captured allocation is a node: it takes addresses, and no memory of the pool. A captured free
 * gives no memory back, with any answer of the driver for memory that no graph allocated. */
static void expect_captures_free(void) {
    CUresult (*begin)(CUstream, int) =
        (CUresult(*)(CUstream, int))cuda_function("cuStreamBeginCapture_v2");
    CUresult (*end)(CUstream, CUgraph *) =
        (CUresult(*)(CUstream, CUgraph *))cuda_function("cuStreamEndCapture");
    CUstream (*stream_of)(CUcontext) = (CUstream(*)(CUcontext))cuda_function("fake_stream_of");
    CUcontext context;
    CUgraph graph;
    CUdeviceptr pointer;
    ((CUresult(*)(CUcontext *))cuda_function("cuCtxGetCurrent"))(&context);
    CUstream stream = stream_of(context);
    CUdeviceptr plain = allocate(8 * MIB);
    CHECK(begin(stream, 0) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemAllocAsync)(&pointer, 2 * SHARE_BYTES, stream) == CUDA_SUCCESS);
    expect(8 * MIB);
    CHECK(CUDA(cuMemFreeAsync)(plain, stream) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemFreeAsync_ptsz)(plain, stream) == CUDA_SUCCESS);
    expect(8 * MIB);
    CHECK(end(stream, &graph) == CUDA_SUCCESS);
    release(plain);
    CHECK(CUDA(cuMemAllocAsync)(&pointer, 2 * SHARE_BYTES, stream) == CUDA_ERROR_OUT_OF_MEMORY);
    expect(0);
}

int main(void) {
    files_make();
    context_make(0);
    expect_from_upload_to_trim();
    expect_reuse_within();
    expect_limit();
    expect_upload_at_instantiation();
    expect_captures_free();
    return 0;
}
