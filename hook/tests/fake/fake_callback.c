/* Callbacks of the fake driver: on a thread of its own, at once. */
#include <pthread.h>
#include <stdlib.h>

#include "fake_driver.h"
#include "fake_launch.h"

struct call {
    void (*function)(void *data);
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

CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *data), void *data) {
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
