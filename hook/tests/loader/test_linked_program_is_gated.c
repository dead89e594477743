/* A program that is linked with the driver, all of its symbols bound when it starts. */
#include <dlfcn.h>

#include "support.h"

/* As cuda.h declares them. */
extern cuCtxCreate_v2_fn cuCtxCreate_v2;
extern cuMemAlloc_v2_fn cuMemAlloc_v2;
extern cuMemFree_v2_fn cuMemFree_v2;
extern cuMemGetInfo_v2_fn cuMemGetInfo_v2;

int main(void) {
    files_make();
    CUcontext context;
    CUdeviceptr pointer;
    size_t available, total;
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
    CHECK(cuMemAlloc_v2(&pointer, SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    CHECK(cuMemGetInfo_v2(&available, &total) == CUDA_SUCCESS);
    CHECK(available == 0 && total == SHARE_BYTES);
    unsigned long before = fake_allocations();
    CUdeviceptr more;
    CHECK(cuMemAlloc_v2(&more, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(fake_allocations() == before);
    CHECK(cuMemFree_v2(pointer) == CUDA_SUCCESS);
    CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == (void *)cuMemAlloc_v2);
    CHECK(dlsym(RTLD_NEXT, "cuMemAlloc_v2") == (void *)cuMemAlloc_v2);
    return 0;
}
