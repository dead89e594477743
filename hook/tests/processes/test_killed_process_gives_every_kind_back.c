/* Memory of any family goes back when the process is killed. */
#include <signal.h>
#include <unistd.h>

#include "support.h"

static int ready[2];

static void take_by_every_family(void) {
    context_make(0);
    CUdeviceptr pointer;
    CUarray array;
    CUmemGenericAllocationHandle handle;
    CUDA_ARRAY3D_DESCRIPTOR description = {.Width = 8 * MIB, .Format = 1, .NumChannels = 1};
    CUmemAllocationProp properties = {.type = 1, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CHECK(CUDA(cuArray3DCreate_v2)(&array, &description) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemCreate)(&handle, 8 * MIB, &properties, 0) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemMap)(UINT64_C(1) << 36, 8 * MIB, 0, handle, 0) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemRelease)(handle) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemAllocAsync)(&pointer, 8 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemFreeAsync)(pointer, NULL) == CUDA_SUCCESS);
    CHECK(CUDA(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB) == CUDA_SUCCESS);
    tell(ready);
    pause();
}

int main(void) {
    files_make();
    CHECK(pipe(ready) == 0);
    pid_t child = start_child(take_by_every_family);
    await(ready);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 32 * MIB);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(wait_child(child) == 128 + SIGKILL);
    context_make(0);
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
    return 0;
}
