/* Threads that allocate and free at once never exceed the share, and leave no charge. */
#include <pthread.h>

#include "support.h"

enum { THREADS = 16, ROUNDS = 2000 };
static CUcontext context;
static cuMemAlloc_v2_fn *take;
static cuMemFree_v2_fn *give;
static CUresult (*set_current)(CUcontext);

static void *churn(void *argument) {
    (void)argument;
    CHECK(set_current(context) == CUDA_SUCCESS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        CUdeviceptr pointer;
        CUresult result = take(&pointer, (i % 3 == 0 ? 40 : 1) * MIB);
        CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
        if (result == CUDA_SUCCESS) {
            CHECK(give(pointer) == CUDA_SUCCESS);
        }
    }
    return NULL;
}

int main(void) {
    files_make();
    take = CUDA(cuMemAlloc_v2);
    give = CUDA(cuMemFree_v2);
    set_current = (CUresult(*)(CUcontext))cuda_function("cuCtxSetCurrent");
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, churn, NULL) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
    CHECK(ledger_slots_bytes() == CONTEXT_BYTES);
    return 0;
}
