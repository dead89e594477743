/* While some threads allocate, others open and close a second driver, ask for symbols, fork
 * children that ask for memory, and end. Each gets the gates of its own copy, and all charges go
 * back.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "support.h"

enum { ALLOCATING = 4, ROUNDS = 400, LOADS = 60, FORKS = 12, ENDING = 60 };

static CUcontext context;
static cuMemAlloc_v2_fn *take;
static cuMemFree_v2_fn *give;
static CUresult (*set_current)(CUcontext);
static char copy_path[4096];

static void allocate_once(void) {
    CUdeviceptr pointer;
    CUresult result = take(&pointer, 4 * MIB);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(result != CUDA_SUCCESS || give(pointer) == CUDA_SUCCESS);
}

static void *churn(void *argument) {
    CHECK(set_current(context) == CUDA_SUCCESS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        allocate_once();
    }
    return argument;
}

static void *load(void *argument) {
    for (unsigned i = 0; i < LOADS; i++) {
        void *copy = dlopen(copy_path, RTLD_NOW | RTLD_LOCAL);
        CHECK(copy != NULL);
        cuMemAlloc_v2_fn *theirs = (cuMemAlloc_v2_fn *)dlsym(copy, "cuMemAlloc_v2");
        CUdeviceptr pointer;
        CHECK(theirs != NULL && theirs != take);
        CHECK(theirs(&pointer, MIB) == 201); /* this copy has no context */
        CHECK(CUDA(cuMemAlloc_v2) == take);
        CHECK(dlclose(copy) == 0);
    }
    return argument;
}

/* The fake driver's lock, and the loader's, may be held by a thread that the child doesn't have: so
 * it makes a request that the hook alone refuses, by the address that its parent found. */
static void ask_in_child(void) {
    CUdeviceptr pointer;
    CHECK(take(&pointer, SHARE_BYTES) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void *fork_often(void *argument) {
    CHECK(set_current(context) == CUDA_SUCCESS);
    for (unsigned i = 0; i < FORKS; i++) {
        CHECK(in_child(ask_in_child) == 0);
    }
    return argument;
}

static void *end(void *argument) {
    CHECK(set_current(context) == CUDA_SUCCESS);
    allocate_once();
    return argument;
}

static void *begin_threads_that_end(void *argument) {
    for (unsigned i = 0; i < ENDING; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, end, NULL) == 0 && pthread_join(thread, NULL) == 0);
    }
    return argument;
}

int main(void) {
    files_make();
    snprintf(copy_path, sizeof copy_path, "%s/copy/libcuda.so.1", getenv("TEST_BUILD"));
    take = CUDA(cuMemAlloc_v2);
    give = CUDA(cuMemFree_v2);
    set_current = (CUresult(*)(CUcontext))cuda_function("cuCtxSetCurrent");
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
    CHECK(set_current(context) == CUDA_SUCCESS);

    void *(*const others[])(void *) = {load, load, fork_often, begin_threads_that_end};
    enum { OTHERS = sizeof others / sizeof *others };
    pthread_t threads[ALLOCATING + OTHERS];
    for (unsigned i = 0; i < ALLOCATING + OTHERS; i++) {
        void *(*body)(void *) = i < OTHERS ? others[i] : churn;
        CHECK(pthread_create(&threads[i], NULL, body, NULL) == 0);
    }
    for (unsigned i = 0; i < ALLOCATING + OTHERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS); /* the children are gone */
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
    return 0;
}
