/* A context is charged while it lives, once, whichever thread makes, retains or ends it at the same
 * moment: a part of the share that is for one context is enough for two threads that retain it, and
 * one that is made anew while another thread ends it isn't free. */
#include <pthread.h>

#include "launching.h"

static void *in_thread(void *call) {
    ((void (*)(void))call)();
    return NULL;
}

/* A whole call of another thread. */
static void meanwhile(void (*call)(void)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, (void *)call) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void retain(void) {
    CUcontext primary = NULL;
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&primary, 0) == CUDA_SUCCESS);
    CHECK(primary != NULL);
}

static void release_primary(void) { CHECK(CUDA(cuDevicePrimaryCtxRelease_v2)(0) == CUDA_SUCCESS); }

static CUcontext created;
static void create(void) { CHECK(CUDA(cuCtxCreate_v2)(&created, 0, 0) == CUDA_SUCCESS); }

static void retain_meanwhile(void) { meanwhile(retain); }
static void release_meanwhile(void) { meanwhile(release_primary); }
static void create_meanwhile(void) { meanwhile(create); }

static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == bytes); }

static void expect_two_first_retains(void) {
    FAKE(fake_give_turn)(retain_meanwhile);
    retain();
    expect(CONTEXT_BYTES);
    release_primary();
    expect(CONTEXT_BYTES);
    release_primary();
    expect(0);
}

/* The driver fails one of two: the other's context stays charged. */
static void fail_next(void) {
    retain_meanwhile();
    FAKE(fake_fail_next)(999);
}

static void expect_a_failure_beside(void) {
    CUcontext primary;
    FAKE(fake_give_turn)(fail_next);
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&primary, 0) == 999);
    expect(CONTEXT_BYTES);
    release_primary();
    expect(0);
    FAKE(fake_fail_next)(999);
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&primary, 0) == 999);
    expect(0);
}

/* The last release has found that the context has ended, and then it is made anew. */
static void expect_retain_in_release(void) {
    retain();
    FAKE(fake_give_turn)(retain_meanwhile);
    release_primary();
    expect(CONTEXT_BYTES);
    release_primary();
    expect(0);
}

/* The context is known when the retain begins, and has ended when it reaches the driver. */
static void expect_release_in_retain(void) {
    retain();
    FAKE(fake_give_turn)(release_meanwhile);
    retain();
    expect(CONTEXT_BYTES);
    release_primary();
    expect(0);
}

/* The driver gives the handle of a context that has just ended to the next one. */
static void expect_create_in_destroy(void) {
    CUcontext ended;
    CHECK(CUDA(cuCtxCreate_v2)(&ended, 0, 0) == CUDA_SUCCESS);
    FAKE(fake_give_turn)(create_meanwhile);
    CHECK(CUDA(cuCtxDestroy_v2)(ended) == CUDA_SUCCESS);
    CHECK(created == ended);
    expect(CONTEXT_BYTES);
    CHECK(CUDA(cuCtxDestroy_v2)(created) == CUDA_SUCCESS);
    expect(0);
}

int main(void) {
    files_make();
    struct vcuda_limits_body body = limits_default();
    body.devices[0].memory_bytes = CONTEXT_BYTES;
    limits_publish(&body);
    expect_two_first_retains();
    expect_a_failure_beside();
    expect_retain_in_release();
    expect_release_in_retain();
    body.devices[0].memory_bytes = 2 * CONTEXT_BYTES;
    limits_publish(&body);
    expect_create_in_destroy();
    return 0;
}
