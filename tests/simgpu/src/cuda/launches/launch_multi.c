/* One cooperative launch on several cards: each part goes to its stream's own context. */
#include "api.h"
#include "launch.h"

#define FLAGS_KNOWN 3u /* no synchronisation before, or after: without effect here */

static struct context *context_of(CUstream handle) {
    for (struct context *context = driver.contexts; context; context = context->next)
        for (struct stream *at = context->streams; at; at = at->next)
            if (at == handle)
                return context;
    return NULL;
}

/* Documented: streams that were made, each of another card, and launches alike. */
static CUresult check(const CUDA_LAUNCH_PARAMS *list, unsigned count, struct context **contexts) {
    CUresult rc = CUDA_SUCCESS;
    pthread_mutex_lock(&driver.lock);
    for (unsigned i = 0; i < count && rc == CUDA_SUCCESS; i++) {
        contexts[i] = context_of(list[i].hStream);
        if (!contexts[i])
            rc = CUDA_ERROR_INVALID_HANDLE;
        else if (list[i].hStream->capture)
            rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        for (unsigned j = 0; j < i && rc == CUDA_SUCCESS; j++)
            if (contexts[j]->card == contexts[i]->card)
                rc = CUDA_ERROR_INVALID_DEVICE;
        const CUDA_LAUNCH_PARAMS *one = &list[i], *all = &list[0];
        if (rc == CUDA_SUCCESS &&
            (one->gridDimX != all->gridDimX || one->gridDimY != all->gridDimY ||
             one->gridDimZ != all->gridDimZ || one->blockDimX != all->blockDimX ||
             one->blockDimY != all->blockDimY || one->blockDimZ != all->blockDimZ ||
             one->sharedMemBytes != all->sharedMemBytes))
            rc = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count,
                                              unsigned flags) {
    struct context *contexts[SIM_CARDS_MAX];
    CUDA_KERNEL_NODE_PARAMS works[SIM_CARDS_MAX];
    uint64_t durations_ns[SIM_CARDS_MAX];
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!list || count == 0 || flags > FLAGS_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    if (count > (unsigned)driver.device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    rc = check(list, count, contexts);
    for (unsigned i = 0; i < count && rc == CUDA_SUCCESS; i++) {
        const CUDA_LAUNCH_PARAMS *one = &list[i];
        works[i] = (CUDA_KERNEL_NODE_PARAMS){
            one->function,     one->gridDimX,  one->gridDimY,  one->gridDimZ,
            one->blockDimX,    one->blockDimY, one->blockDimZ, one->sharedMemBytes,
            one->kernelParams, NULL,           NULL,           NULL};
        rc = launch_check(&works[i], &durations_ns[i]);
    }
    for (unsigned i = 0; i < count && rc == CUDA_SUCCESS; i++)
        rc = launch_queue(contexts[i], list[i].hStream, &works[i], durations_ns[i]);
    return rc;
}
