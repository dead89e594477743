/* Promises of the driver to CUDA programs: graphs. */
#include <stdatomic.h>

#include "graphs.h"

static CUDA_KERNEL_NODE_PARAMS work(const char *name) {
    return (CUDA_KERNEL_NODE_PARAMS){kernel(name), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL, NULL};
}

static CUgraphNode add_kernel(CUgraph graph, CUgraphNode after, const char *name) {
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS params = work(name);
    OK(cuGraphAddKernelNode_v2(&node, graph, &after, after != NULL, &params));
    return node;
}

/* GPU time of a launch, by events around it. */
static float run_ms(CUgraphExec exec, CUstream stream) {
    CUevent start, end;
    float milliseconds;
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuEventRecord(start, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventRecord(end, stream));
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    return milliseconds;
}

static void nodes_run_after_each_other_and_branches_overlap(void) {
    new_context(0);
    CUgraph chain = new_graph(), wide = new_graph();
    CUgraphNode first = add_kernel(chain, NULL, "step_4ms");
    add_kernel(chain, first, "step_4ms");
    add_kernel(wide, NULL, "step_4ms");
    add_kernel(wide, NULL, "step_4ms");
    float in_row = run_ms(made(chain), NULL), side_by_side = run_ms(made(wide), NULL);
    EXPECT(in_row >= 7.99f);
    EXPECT(side_by_side >= 3.99f && side_by_side < 7.9f);
}

static void a_graph_copies_and_fills_when_it_is_launched(void) {
    CUdeviceptr memory;
    CUgraphNode fill, copy;
    unsigned values[4] = {0};
    new_context(0);
    OK(cuMemAlloc_v2(&memory, sizeof values));
    CUgraph graph = new_graph();
    CUDA_MEMSET_NODE_PARAMS pattern = {memory, 0, 5, 4, 4, 1};
    CUDA_MEMCPY3D out = {.srcMemoryType = 2,
                         .srcDevice = memory,
                         .dstMemoryType = 1,
                         .dstHost = values,
                         .WidthInBytes = sizeof values,
                         .Height = 1,
                         .Depth = 1};
    OK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &pattern, NULL));
    OK(cuGraphAddMemcpyNode(&copy, graph, &fill, 1, &out, NULL));
    CUgraphExec exec = made(graph);
    EXPECT(values[3] == 0);
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    EXPECT(values[0] == 5 && values[3] == 5);
    pattern.value = 6;
    OK(cuGraphExecMemsetNodeSetParams(exec, fill, &pattern, NULL));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    EXPECT(values[3] == 6);
}

static void an_executable_graph_is_a_copy(void) {
    new_context(0);
    CUgraph graph = new_graph();
    CUgraphNode node = add_kernel(graph, NULL, "step_2ms");
    CUgraphExec exec = made(graph);
    CUDA_KERNEL_NODE_PARAMS longer = work("step_5s");
    OK(cuGraphKernelNodeSetParams_v2(node, &longer));
    OK(cuGraphDestroy(graph));
    EXPECT(run_ms(exec, NULL) < 1000);
    OK(cuGraphExecDestroy(exec));
    EXPECT_RC(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void node_parameters_change_an_executable_graph(void) {
    new_context(0);
    CUgraph graph = new_graph();
    CUgraphNode node = add_kernel(graph, NULL, "step_2s");
    CUgraphExec exec = made(graph);
    CUDA_KERNEL_NODE_PARAMS params = work("step_6ms"), read;
    OK(cuGraphExecKernelNodeSetParams_v2(exec, node, &params));
    float milliseconds = run_ms(exec, NULL);
    EXPECT(milliseconds >= 5.99f && milliseconds < 1000);
    OK(cuGraphKernelNodeGetParams_v2(node, &read));
    EXPECT(read.func != params.func); /* the graph itself is as it was */
    OK(cuGraphNodeSetEnabled(exec, node, 0));
    EXPECT(run_ms(exec, NULL) < 5.9f);
}

static void an_update_wants_the_same_shape(void) {
    CUgraphExecUpdateResultInfo info;
    CUgraphNode wrong;
    int result;
    new_context(0);
    CUgraph graph = new_graph(), same = new_graph(), other = new_graph(), more = new_graph();
    CUgraphNode node;
    add_kernel(graph, NULL, "step_2s");
    add_kernel(same, NULL, "step_6ms");
    OK(cuGraphAddEmptyNode(&node, other, NULL, 0));
    add_kernel(more, add_kernel(more, NULL, "f"), "f");
    CUgraphExec exec = made(graph);
    OK(cuGraphExecUpdate_v2(exec, same, &info));
    EXPECT(info.result == UPDATE_SUCCESS);
    EXPECT(run_ms(exec, NULL) < 1000);
    EXPECT_RC(cuGraphExecUpdate(exec, other, &wrong, &result),
              CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT(result == UPDATE_NODE_TYPE_CHANGED && wrong == node);
    EXPECT_RC(cuGraphExecUpdate_v2(exec, more, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT(info.result == UPDATE_TOPOLOGY_CHANGED);
}

static void a_cycle_is_refused_at_instantiation(void) {
    CUgraphExec exec;
    new_context(0);
    CUgraph graph = new_graph();
    CUgraphNode a = add_kernel(graph, NULL, "f"), b = add_kernel(graph, a, "f");
    OK(cuGraphAddDependencies(graph, &b, &a, 1));
    EXPECT_RC(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphRemoveDependencies(graph, &b, &a, 1));
    OK(cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
}

static void a_clone_knows_its_nodes(void) {
    CUgraph clone;
    CUgraphNode found;
    int type;
    new_context(0);
    CUgraph graph = new_graph();
    CUgraphNode node = add_kernel(graph, NULL, "f");
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&found, node, clone));
    EXPECT(found != node);
    OK(cuGraphNodeGetType(found, &type));
    EXPECT(type == NODE_KERNEL);
    OK(cuGraphDestroyNode(node));
    EXPECT_RC(cuGraphNodeGetType(node, &type), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(graph));
    EXPECT_RC(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphNodeGetType(found, &type));
}

static void a_child_graph_runs_inside(void) {
    CUgraphNode node;
    new_context(0);
    CUgraph child = new_graph(), graph = new_graph();
    add_kernel(child, add_kernel(child, NULL, "step_3ms"), "step_3ms");
    OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    add_kernel(graph, node, "step_3ms");
    OK(cuGraphDestroy(child));
    EXPECT(run_ms(made(graph), NULL) >= 8.99f);
}

static atomic_int order;
static void note(void *place) { *(int *)place = atomic_fetch_add(&order, 1) + 1; }

static void host_nodes_run_in_their_turn(void) {
    static int first, second;
    CUgraphNode a, b;
    new_context(0);
    CUgraph graph = new_graph();
    CUDA_HOST_NODE_PARAMS one = {note, &first}, two = {note, &second};
    OK(cuGraphAddHostNode(&a, graph, NULL, 0, &one));
    CUgraphNode kernel_node = add_kernel(graph, a, "step_2ms");
    OK(cuGraphAddHostNode(&b, graph, &kernel_node, 1, &two));
    OK(cuGraphLaunch(made(graph), NULL));
    OK(cuStreamSynchronize(NULL));
    EXPECT(first == 1 && second == 2);
}

static void the_general_call_makes_every_kind(void) {
    CUgraphNode node;
    CUgraphNodeParams params = {.type = NODE_KERNEL};
    new_context(0);
    CUgraph graph = new_graph();
    params.kernel = work("f");
    OK(cuGraphAddNode(&node, graph, NULL, 0, &params));
    params = (CUgraphNodeParams){.type = NODE_MEM_ALLOC};
    params.alloc = (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = {.allocType = 1, .location = {1, 0}},
                                                .bytesize = MIB};
    OK(cuGraphAddNode(&node, graph, &node, 1, &params));
    EXPECT(params.alloc.dptr != 0);
    params = (CUgraphNodeParams){.type = 8};
    EXPECT_RC(cuGraphAddNode(&node, graph, NULL, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
}

static void a_launch_into_a_capture_becomes_a_child(void) {
    CUstream stream;
    CUgraph captured;
    CUgraphNode node;
    size_t count = 1;
    int type;
    new_context(0);
    CUgraph graph = new_graph();
    add_kernel(graph, NULL, "step_5s");
    CUgraphExec exec = made(graph);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamEndCapture(stream, &captured));
    OK(cuGraphGetNodes(captured, &node, &count));
    OK(cuGraphNodeGetType(node, &type));
    EXPECT(count == 1 && type == NODE_GRAPH);
}

static const struct check checks[] = {
    CHECK(nodes_run_after_each_other_and_branches_overlap),
    CHECK(a_graph_copies_and_fills_when_it_is_launched),
    CHECK(an_executable_graph_is_a_copy),
    CHECK(node_parameters_change_an_executable_graph),
    CHECK(an_update_wants_the_same_shape),
    CHECK(a_cycle_is_refused_at_instantiation),
    CHECK(a_clone_knows_its_nodes),
    CHECK(a_child_graph_runs_inside),
    CHECK(host_nodes_run_in_their_turn),
    CHECK(the_general_call_makes_every_kind),
    CHECK(a_launch_into_a_capture_becomes_a_child),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
