/* Callbacks of the fake driver: on a thread of its own, at once. */
#include <pthread.h>
#include <stdlib.h>

#include "fake_driver.h"
#include "fake_launch.h"

struct call {
    CUhostFn function;
    void *data;
    CUcontext context;
};

static void *run_call(void *data) {
    struct call call = *(struct call *)data;
    free(data);
    cuCtxSetCurrent(call.context);
    call.function(call.data);
    return NULL;
}

cuLaunchHostFunc_fn cuLaunchHostFunc;
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
    (void)stream;
    struct call *call = malloc(sizeof *call);
    pthread_t thread;
    *call = (struct call){.function = function, .data = data, .context = fake_current()};
    if (pthread_create(&thread, NULL, run_call, call) != 0) {
        free(call);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_detach(thread);
    return CUDA_SUCCESS;
}

/* The mode tells how the function's thread waits: it has no effect here. */
cuLaunchHostFunc_v2_fn cuLaunchHostFunc_v2;
CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data, unsigned int mode) {
    return mode > 1 ? CUDA_ERROR_INVALID_VALUE : cuLaunchHostFunc(stream, function, data);
}
