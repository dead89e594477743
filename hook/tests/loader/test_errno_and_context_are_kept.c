/* A gate leaves errno as the driver did, and the current context as it was. */
#include <errno.h>

#include "support.h"

int main(void) {
    files_make();
    CUresult (*get_current)(CUcontext *) =
        (CUresult(*)(CUcontext *))cuda_function("cuCtxGetCurrent");
    void (*set_errno)(int) = (void (*)(int))cuda_function("fake_set_errno_on_calls");
    cuMemAlloc_v2_fn *take = CUDA(cuMemAlloc_v2);
    context_make(0);
    CUcontext before, after;
    CHECK(get_current(&before) == CUDA_SUCCESS);
    CUdeviceptr pointer;
    errno = 77;
    CHECK(take(&pointer, MIB) == CUDA_SUCCESS && errno == 77);
    CHECK(take(&pointer, SHARE_BYTES) == CUDA_ERROR_OUT_OF_MEMORY && errno == 77);
    CHECK(cuda_function("cuMemAlloc_v2") != NULL);
    set_errno(88);
    CHECK(take(&pointer, MIB) == CUDA_SUCCESS && errno == 88);
    CHECK(get_current(&after) == CUDA_SUCCESS && after == before);
    return 0;
}
