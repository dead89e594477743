/* A charge hangs on the driver's answer, also where another thread writes another one over it at
 * that moment. Otherwise the charge of much memory went back with a handle of little. */
#include <unistd.h>

#include "launching.h"

enum { HOST = 2 };
#define SMALL (2 * MIB)
#define LARGE (64 * MIB)

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == CONTEXT_BYTES + bytes); }

/* The place of an answer; as another thread would, this writes a handle of little memory there,
 * where the driver has just written its own. */
static uint64_t answer, false_answer;
static CUdeviceptr_v1 narrow;
static void write_over(void) {
    answer = false_answer;
    narrow = (CUdeviceptr_v1)false_answer;
}

/* A request that the driver looks at first: this is the turn at its answer. */
static void write_over_later(void) { FAKE(fake_give_turn)(write_over); }

static void begin(uint64_t handle, void (*turn)(void)) {
    false_answer = handle;
    answer = 0;
    FAKE(fake_give_turn)(turn);
}

static void expect_pointers(void) {
    CUdeviceptr little = allocate(SMALL);
    begin(little, write_over);
    CHECK(CUDA(cuMemAlloc_v2)((CUdeviceptr *)(void *)&answer, LARGE) == CUDA_SUCCESS);
    CHECK(answer != little);
    release(answer);
    begin(little, write_over);
    CHECK(CUDA(cuMemAllocManaged)((CUdeviceptr *)(void *)&answer, LARGE, 1) == CUDA_SUCCESS);
    CHECK(answer != little);
    release(answer);
    begin(little, write_over_later);
    CHECK(CUDA(cuMemAlloc)(&narrow, (unsigned int)LARGE) == CUDA_SUCCESS);
    CHECK(narrow != little);
    CHECK(CUDA(cuMemFree)(narrow) == CUDA_SUCCESS);
    expect(SMALL);
    release(little);
    expect(0);
}

static CUmemGenericAllocationHandle made(size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = 1, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CHECK(CUDA(cuMemCreate)(&handle, bytes, &properties, 0) == CUDA_SUCCESS);
    return handle;
}

static void drop(CUmemGenericAllocationHandle handle) {
    CHECK(CUDA(cuMemRelease)(handle) == CUDA_SUCCESS);
}

static void expect_physical_memory(void) {
    CUmemGenericAllocationHandle *place = (CUmemGenericAllocationHandle *)(void *)&answer;
    CUmemAllocationProp properties = {.type = 1, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle little = made(SMALL);
    begin(little, write_over_later);
    CHECK(CUDA(cuMemCreate)(place, LARGE, &properties, 0) == CUDA_SUCCESS);
    CHECK(answer != little);
    CUmemGenericAllocationHandle much = answer;
    void *address = (void *)(uintptr_t)(UINT64_C(1) << 36);
    CHECK(CUDA(cuMemMap)((CUdeviceptr)address, LARGE, 0, much, 0) == CUDA_SUCCESS);
    begin(little, write_over);
    CHECK(CUDA(cuMemRetainAllocationHandle)(place, address) == CUDA_SUCCESS);
    CHECK(answer == much);
    drop(much);
    drop(much);
    CHECK(CUDA(cuMemUnmap)((CUdeviceptr)address, LARGE) == CUDA_SUCCESS);
    expect(SMALL);
    drop(little);
    expect(0);
}

/* The descriptor keeps the memory, and no other one. */
static void expect_descriptor(void) {
    CUmemGenericAllocationHandle *place = (CUmemGenericAllocationHandle *)(void *)&answer;
    CUmemGenericAllocationHandle little = made(SMALL), much = made(LARGE);
    enum { FILE_DESCRIPTOR = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
    begin(0, write_over);
    CHECK(CUDA(cuMemExportToShareableHandle)(&answer, much, FILE_DESCRIPTOR, 0) == CUDA_SUCCESS);
    int fd = (int)answer;
    CHECK(fd > 0);
    begin(little, write_over);
    CHECK(CUDA(cuMemImportFromShareableHandle)(place, (void *)(intptr_t)fd, FILE_DESCRIPTOR) ==
          CUDA_SUCCESS);
    CHECK(answer == much);
    drop(much);
    drop(much);
    expect(SMALL + LARGE);
    close(fd);
    size_t available, total;
    CHECK(CUDA(cuMemGetInfo_v2)(&available, &total) == CUDA_SUCCESS);
    expect(SMALL);
    drop(little);
    expect(0);
}

/* A pool of the card that is taken for one of the host is uncharged. */
static void expect_pools(void) {
    CUmemPoolProps on_host = {.allocType = 1, .location = {.type = HOST}};
    CUmemPoolProps on_card = {.allocType = 1, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool *place = (CUmemoryPool *)(void *)&answer, pool;
    CUdeviceptr pointer;
    CHECK(CUDA(cuMemPoolCreate)(&pool, &on_card) == CUDA_SUCCESS);
    begin((uint64_t)pool, write_over_later);
    CHECK(CUDA(cuMemPoolCreate)(place, &on_host) == CUDA_SUCCESS);
    CHECK(*place != pool);
    begin((uint64_t)pool, write_over);
    CHECK(CUDA(cuMemPoolImportFromShareableHandle)(place, &on_card, 1, 0) == CUDA_SUCCESS);
    CHECK(*place != pool);
    CHECK(CUDA(cuMemAllocFromPoolAsync)(&pointer, LARGE, pool, NULL) == CUDA_SUCCESS);
    expect(LARGE);
    CHECK(CUDA(cuMemFreeAsync)(pointer, NULL) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemPoolDestroy)(pool) == CUDA_SUCCESS);
    expect(0);
}

/* A context that is taken for another one, which is known, is uncharged. */
static void expect_contexts(void) {
    CUcontext *place = (CUcontext *)(void *)&answer, known;
    CHECK(CUDA(cuCtxCreate_v2)(&known, 0, 0) == CUDA_SUCCESS);
    begin((uint64_t)known, write_over);
    CHECK(CUDA(cuCtxCreate_v2)(place, 0, 0) == CUDA_SUCCESS);
    expect(2 * CONTEXT_BYTES);
    CHECK(CUDA(cuCtxDestroy_v2)(*place) == CUDA_SUCCESS);
    begin((uint64_t)known, write_over);
    CHECK(CUDA(cuGreenCtxCreate)((CUgreenCtx *)(void *)place, NULL, 0, 1) == CUDA_SUCCESS);
    expect(2 * CONTEXT_BYTES);
    CHECK(CUDA(cuGreenCtxDestroy)(*(CUgreenCtx *)(void *)place) == CUDA_SUCCESS);
    CHECK(CUDA(cuCtxDestroy_v2)(known) == CUDA_SUCCESS);
    expect(0);
}

static CUgraphExec instantiated(unsigned way, CUgraph graph) {
    CUgraphExec *place = (CUgraphExec *)(void *)&answer;
    CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {.flags = 0};
    begin(1, write_over);
    CUresult result = way == 0   ? CUDA(cuGraphInstantiate)(place, graph, NULL, NULL, 0)
                      : way == 1 ? CUDA(cuGraphInstantiate_v2)(place, graph, NULL, NULL, 0)
                      : way == 2 ? CUDA(cuGraphInstantiateWithFlags)(place, graph, 0)
                                 : CUDA(cuGraphInstantiateWithParams)(place, graph, &parameters);
    CHECK(result == CUDA_SUCCESS);
    CHECK(answer != 1);
    return *place;
}

static void expect_graphs(void) {
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS allocation = {
        .poolProps.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .bytesize = LARGE};
    CHECK(FAKE(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS);
    CHECK(FAKE(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &allocation) == CUDA_SUCCESS);
    for (unsigned way = 0; way < 4; way++) {
        CHECK(CUDA(cuGraphUpload)(instantiated(way, graph), NULL) == CUDA_SUCCESS);
        expect((way + 1) * LARGE);
    }
}

/* The driver's own function is nowhere where the program may read it. */
static void *function, *seen;
static void look(void) { seen = function; }

static void expect_functions(void) {
    function = NULL;
    FAKE(fake_give_turn)(look);
    CHECK(CUDA(cuGetProcAddress)("cuMemAlloc", &function, 12000, 0) == CUDA_SUCCESS);
    CHECK(seen == NULL && function == cuda_function("cuMemAlloc_v2"));
    function = NULL;
    FAKE(fake_give_turn)(look);
    CHECK(CUDA(cuGetProcAddress_v2)("cuMemAlloc", &function, 12000, 0, NULL) == CUDA_SUCCESS);
    CHECK(seen == NULL && function == cuda_function("cuMemAlloc_v2"));
}

int main(void) {
    files_make();
    context_make(0);
    expect_pointers();
    expect_physical_memory();
    expect_descriptor();
    expect_pools();
    expect_contexts();
    expect_graphs();
    expect_functions();
    return 0;
}
