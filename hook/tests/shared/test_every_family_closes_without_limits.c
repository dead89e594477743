/* Without limits every family is closed and the driver isn't asked; without a ledger `on_error`
 * decides. */
#include <unistd.h>

#include "support.h"

enum { FAMILIES = 6 };

static CUgraphExec exec;

static CUresult ask(unsigned family) {
    CUdeviceptr pointer;
    CUarray array;
    CUmemGenericAllocationHandle handle;
    CUgreenCtx green;
    CUDA_ARRAY3D_DESCRIPTOR description = {.Width = 8 * MIB, .Format = 1, .NumChannels = 1};
    CUmemAllocationProp properties = {.type = 1, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    switch (family) {
    case 0:
        return CUDA(cuArray3DCreate_v2)(&array, &description);
    case 1:
        return CUDA(cuMemCreate)(&handle, 8 * MIB, &properties, 0);
    case 2:
        return CUDA(cuMemAllocAsync)(&pointer, 8 * MIB, NULL);
    case 3:
        return CUDA(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB);
    case 4:
        return CUDA(cuGraphUpload)(exec, NULL);
    default:
        return CUDA(cuGreenCtxCreate)(&green, NULL, 0, 1);
    }
}

static void make_graph(void) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = {
        .poolProps.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .bytesize = 8 * MIB};
    CUgraph graph;
    CUgraphNode node;
    ((__typeof__(cuGraphCreate) *)cuda_function("cuGraphCreate"))(&graph, 0);
    ((__typeof__(cuGraphAddMemAllocNode) *)cuda_function("cuGraphAddMemAllocNode"))(
        &node, graph, NULL, 0, &parameters);
    CHECK(CUDA(cuGraphInstantiateWithFlags)(&exec, graph, 0) == CUDA_SUCCESS);
}

static void expect_all(CUresult result) {
    unsigned long (*calls)(void) = (unsigned long (*)(void))cuda_function("fake_allocations");
    ((CUcontext(*)(int))cuda_function("fake_context_made_privately"))(0);
    make_graph();
    for (unsigned family = 0; family < FAMILIES; family++) {
        unsigned long before = calls();
        CHECK(ask(family) == result);
        CHECK(result == CUDA_SUCCESS || calls() == before);
    }
}

static void expect_closed(void) { expect_all(CUDA_ERROR_NOT_PERMITTED); }

static void expect_open(void) { expect_all(CUDA_SUCCESS); }

int main(void) {
    CHECK(in_child(expect_closed) == 0);
    files_make();
    CHECK(unlink("ledger") == 0);
    CHECK(in_child(expect_closed) == 0);
    struct vcuda_limits_body body = limits_default();
    body.on_error = VCUDA_ON_ERROR_OPEN;
    limits_publish(&body);
    CHECK(in_child(expect_open) == 0);
    return 0;
}
