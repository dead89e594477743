/* A request in a struct is read once: the driver gets what was charged, also where another thread
 * changes the struct meanwhile. Otherwise memory was taken for which nothing, or less, was paid. */
#include "launching.h"

enum { HOST = 2, SMALL = 1024, LARGE = 1 << 20 };
#define CARD CU_MEM_LOCATION_TYPE_DEVICE
#define BYTES (64 * MIB)

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == CONTEXT_BYTES + bytes); }

/* As another thread would, between the look at the struct and the driver's. */
static CUmemAllocationProp properties;
static void put_on_card(void) { properties.location.type = CARD; }

static void expect_physical_memory(void) {
    CUmemGenericAllocationHandle handle;
    properties = (CUmemAllocationProp){.type = 1, .location = {.type = HOST}};
    FAKE(fake_give_turn)(put_on_card);
    CHECK(CUDA(cuMemCreate)(&handle, BYTES, &properties, 0) == CUDA_SUCCESS);
    CHECK(properties.location.type == CARD);
    CHECK(FAKE(fake_in_use)() == 0);
    CHECK(CUDA(cuMemRelease)(handle) == CUDA_SUCCESS);
    expect(0);
}

static CUmemPoolProps pool_properties;
static void put_pool_on_host(void) { pool_properties.location.type = HOST; }

static void expect_pool(void) {
    CUmemoryPool pool;
    CUdeviceptr pointer;
    pool_properties = (CUmemPoolProps){.allocType = 1, .location = {.type = CARD}};
    FAKE(fake_give_turn)(put_pool_on_host);
    CHECK(CUDA(cuMemPoolCreate)(&pool, &pool_properties) == CUDA_SUCCESS);
    CHECK(pool_properties.location.type == HOST);
    CHECK(CUDA(cuMemAllocFromPoolAsync)(&pointer, BYTES, pool, NULL) == CUDA_SUCCESS);
    expect(BYTES);
    CHECK(CUDA(cuMemFreeAsync)(pointer, NULL) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemPoolDestroy)(pool) == CUDA_SUCCESS);
    expect(0);
}

static CUDA_ARRAY_DESCRIPTOR_v1 flat1;
static CUDA_ARRAY_DESCRIPTOR flat;
static CUDA_ARRAY3D_DESCRIPTOR_v1 deep1;
static CUDA_ARRAY3D_DESCRIPTOR deep;
static void widen(void) { flat1.Width = deep1.Width = LARGE, flat.Width = deep.Width = LARGE; }

static CUresult make_array(unsigned way, CUarray *array) {
    flat1 = (CUDA_ARRAY_DESCRIPTOR_v1){.Width = SMALL, .Format = 1, .NumChannels = 1};
    flat = (CUDA_ARRAY_DESCRIPTOR){.Width = SMALL, .Format = 1, .NumChannels = 1};
    deep1 = (CUDA_ARRAY3D_DESCRIPTOR_v1){.Width = SMALL, .Format = 1, .NumChannels = 1};
    deep = (CUDA_ARRAY3D_DESCRIPTOR){.Width = SMALL, .Format = 1, .NumChannels = 1};
    FAKE(fake_give_turn)(widen);
    return way == 0   ? CUDA(cuArrayCreate)(array, &flat1)
           : way == 1 ? CUDA(cuArrayCreate_v2)(array, &flat)
           : way == 2 ? CUDA(cuArray3DCreate)(array, &deep1)
           : way == 3 ? CUDA(cuArray3DCreate_v2)(array, &deep)
                      : CUDA(cuMipmappedArrayCreate)((CUmipmappedArray *)(void *)array, &deep, 1);
}

static void expect_arrays(void) {
    for (unsigned way = 0; way < 5; way++) {
        CUarray array;
        CHECK(make_array(way, &array) == CUDA_SUCCESS);
        CHECK(deep.Width == LARGE);
        CHECK(FAKE(fake_array_width)() == SMALL);
    }
}

static CUDA_GRAPH_INSTANTIATE_PARAMS parameters;
static void hide_upload(void) { parameters.flags = 0; }

static void expect_upload(void) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS allocation = {.poolProps.location = {.type = CARD},
                                             .bytesize = BYTES};
    uint64_t before = ledger_sum_bytes();
    CHECK(FAKE(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS);
    CHECK(FAKE(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &allocation) == CUDA_SUCCESS);
    parameters = (CUDA_GRAPH_INSTANTIATE_PARAMS){.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
    FAKE(fake_give_turn)(hide_upload);
    CHECK(CUDA(cuGraphInstantiateWithParams)(&exec, graph, &parameters) == CUDA_SUCCESS);
    CHECK(FAKE(fake_in_use)() == BYTES);
    CHECK(ledger_sum_bytes() == before + BYTES);
}

int main(void) {
    files_make();
    context_make(0);
    expect_physical_memory();
    expect_pool();
    expect_arrays();
    expect_upload();
    return 0;
}
