/* Promises of the driver to CUDA programs: graphs that allocate. */
#include "graphs.h"

static CUdeviceptr add_allocation(CUgraph graph, CUgraphNode *node) {
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = 1, .location = {1, 0}},
                                         .bytesize = 64 * MIB};
    OK(cuGraphAddMemAllocNode(node, graph, NULL, 0, &params));
    return params.dptr;
}

static void memory_nodes_take_and_keep_memory(void) {
    CUgraphNode take, give;
    CUgraphExec second;
    new_context(0);
    CUgraph graph = new_graph();
    CUdeviceptr pointer = add_allocation(graph, &take);
    EXPECT(pointer != 0);
    OK(cuGraphAddMemFreeNode(&give, graph, &take, 1, pointer));
    CUgraphExec exec = made(graph);
    EXPECT_RC(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    size_t before = free_bytes();
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    EXPECT(before - free_bytes() == 64 * MIB);
    OK(cuDeviceGraphMemTrim(0));
    EXPECT(free_bytes() == before);
}

static void what_a_graph_took_outlives_it_until_it_is_freed(void) {
    CUgraphNode node;
    new_context(0);
    CUgraph graph = new_graph();
    CUdeviceptr pointer = add_allocation(graph, &node);
    CUgraphExec exec = made(graph);
    OK(cuGraphDestroy(graph));
    size_t before = free_bytes();
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuGraphLaunch(exec, NULL));
    EXPECT_RC(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecDestroy(exec));
    OK(cuDeviceGraphMemTrim(0));
    EXPECT(before - free_bytes() == 64 * MIB);
    OK(cuMemFree_v2(pointer));
    EXPECT_RC(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceGraphMemTrim(0));
    EXPECT(free_bytes() == before);
}

static void only_what_a_graph_allocates_is_freed_by_one_and_once(void) {
    CUgraphNode take, give;
    CUdeviceptr plain;
    CUstream stream;
    new_context(0);
    OK(cuMemAlloc_v2(&plain, MIB));
    CUgraph graph = new_graph(), other = new_graph();
    CUdeviceptr pointer = add_allocation(graph, &take);
    EXPECT_RC(cuGraphAddMemFreeNode(&give, graph, &take, 1, plain), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphAddMemFreeNode(&give, graph, &take, 1, pointer));
    EXPECT_RC(cuGraphAddMemFreeNode(&give, graph, &give, 1, pointer), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphAddMemFreeNode(&give, other, NULL, 0, pointer));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    EXPECT_RC(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamEndCapture(stream, &other));
    OK(cuMemFree_v2(plain));
}

static void an_automatic_free_lets_a_graph_run_again(void) {
    CUgraphNode node;
    CUgraphExec exec;
    new_context(0);
    CUgraph graph = new_graph();
    CUdeviceptr pointer = add_allocation(graph, &node);
    OK(cuGraphInstantiateWithFlags(&exec, graph, CU_GRAPH_AUTO_FREE));
    size_t before = free_bytes();
    for (int i = 0; i < 3; i++)
        OK(cuGraphLaunch(exec, NULL));
    EXPECT(before - free_bytes() == 64 * MIB);
    OK(cuMemFree_v2(pointer));
}

static void a_graph_with_memory_nodes_is_no_child_and_no_clone(void) {
    CUgraphNode node;
    CUgraph other;
    CUstream stream;
    new_context(0);
    CUgraph graph = new_graph(), parent = new_graph();
    add_allocation(graph, &node);
    EXPECT_RC(cuGraphClone(&other, graph), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_RC(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph), CUDA_ERROR_NOT_SUPPORTED);
    CUgraphExec exec = made(graph);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    EXPECT_RC(cuGraphLaunch(exec, stream), CUDA_ERROR_NOT_SUPPORTED);
}

static const struct check checks[] = {
    CHECK(memory_nodes_take_and_keep_memory),
    CHECK(what_a_graph_took_outlives_it_until_it_is_freed),
    CHECK(only_what_a_graph_allocates_is_freed_by_one_and_once),
    CHECK(an_automatic_free_lets_a_graph_run_again),
    CHECK(a_graph_with_memory_nodes_is_no_child_and_no_clone),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
