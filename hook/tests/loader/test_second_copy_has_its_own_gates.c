/* A program that brings a libcuda.so.1 of its own meets a gate before it, and that copy behind. */
#include <dlfcn.h>
#include <stdio.h>

#include "support.h"

int main(void) {
    files_make();
    context_make(0);
    allocate(400 * MIB);

    char path[4096];
    snprintf(path, sizeof path, "%s/copy/libcuda.so.1", getenv("TEST_BUILD"));
    void *copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(copy != NULL);
    cuMemAlloc_v2_fn *take = (cuMemAlloc_v2_fn *)dlsym(copy, "cuMemAlloc_v2");
    CHECK(take != NULL && take != CUDA(cuMemAlloc_v2));
    CUdeviceptr pointer;
    CHECK(take(&pointer, 4 * MIB) == 201); /* the copy has no context yet */
    CUcontext context;
    cuCtxCreate_v2_fn *create = (cuCtxCreate_v2_fn *)dlsym(copy, "cuCtxCreate_v2");
    CHECK(create(&context, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY); /* one share for both */
    struct vcuda_limits_body body = limits_default();
    body.devices[0].memory_bytes += CONTEXT_BYTES;
    limits_publish(&body);
    CHECK(create(&context, 0, 0) == CUDA_SUCCESS);
    CHECK(take(&pointer, 48 * MIB) == CUDA_SUCCESS);
    CHECK(take(&pointer, 2 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    unsigned long (*calls)(void) = (unsigned long (*)(void))dlsym(copy, "fake_allocations");
    CHECK(calls() == 2);

    CHECK(dlclose(copy) == 0);
    copy = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* another life, perhaps another address */
    take = (cuMemAlloc_v2_fn *)dlsym(copy, "cuMemAlloc_v2");
    CHECK(take(&pointer, 4 * MIB) == 201);
    return 0;
}
