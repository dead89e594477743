/* Launches: a duration, queued on the card's time line. */
#include "launch.h"

#include <string.h>

#include "api.h"
#include "capture.h"
#include "image.h"

/* The first parameter as uint32, from either way of passing parameters. */
static uint32_t first_parameter(void **params, void **extra) {
    uint32_t value = 0;
    const void *at = params ? params[0] : NULL;
    for (size_t i = 0; !params && extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2)
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            at = extra[i + 1];
    if (at)
        memcpy(&value, at, sizeof value);
    return value;
}

/* Blocks, like the real driver. */
void launch_wait_for_room(struct context *context) {
    pthread_mutex_lock(&driver.lock);
    uint64_t oldest = context->queue[context->launches % LAUNCH_QUEUE];
    pthread_mutex_unlock(&driver.lock);
    if (oldest)
        card_wait(context->card, oldest);
    sim_lock(driver.state);
    uint64_t full = sim_timeline_full_until(driver.state, driver.client, context->card);
    sim_unlock(driver.state);
    if (full)
        card_wait(context->card, full);
}

void launch_count(struct context *context, uint64_t end_ns) {
    context->queue[context->launches++ % LAUNCH_QUEUE] = end_ns;
    /* Before the time line forgets turns that events still want (SIM_SEGMENTS). */
    if (context->launches % 256 == 0)
        events_settle(context);
}

static CUresult capture(struct stream *stream, const CUDA_KERNEL_NODE_PARAMS *work,
                        uint64_t duration_ns) {
    struct node *node = capture_node(stream, NODE_KERNEL);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->kernel = *work;
    node->duration_ns = duration_ns;
    return CUDA_SUCCESS;
}

CUresult launch_queue(struct context *context, CUstream handle, const CUDA_KERNEL_NODE_PARAMS *work,
                      uint64_t duration_ns) {
    launch_wait_for_room(context);
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = stream_of_handle(context, handle);
    CUresult rc = stream ? capture_enter(stream) : CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS && stream->capture)
        rc = capture(stream, work, duration_ns);
    else if (rc == CUDA_SUCCESS && driver.state->cards[context->card].lost)
        rc = CUDA_ERROR_LAUNCH_FAILED;
    else if (rc == CUDA_SUCCESS)
        launch_count(context, stream_queue(stream, duration_ns));
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

static bool bad_geometry(const CUDA_KERNEL_NODE_PARAMS *work) {
    unsigned gx = work->gridDimX, gy = work->gridDimY, gz = work->gridDimZ;
    unsigned bx = work->blockDimX, by = work->blockDimY, bz = work->blockDimZ;
    bool grid = gx == 0 || gy == 0 || gz == 0 || gx > 2147483647u || gy > 65535 || gz > 65535;
    bool block = bx == 0 || by == 0 || bz == 0 || bx > 1024 || by > 1024 || bz > 64;
    return grid || block || (uint64_t)bx * by * bz > 1024;
}

CUresult launch_check(const CUDA_KERNEL_NODE_PARAMS *work, uint64_t *duration_ns) {
    CUfunction function = work->func;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (bad_geometry(work) || (work->kernelParams && work->extra) ||
        work->sharedMemBytes > (unsigned)function->attributes[8])
        return CUDA_ERROR_INVALID_VALUE;
    *duration_ns = function->duration_ns;
    if (function->first_parameter)
        *duration_ns = first_parameter(work->kernelParams, work->extra) * 1000ULL;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared_bytes, CUstream stream,
                        void **params, void **extra) {
    CUDA_KERNEL_NODE_PARAMS work = {function, gx,           gy,     gz,    bx,   by,
                                    bz,       shared_bytes, params, extra, NULL, NULL};
    struct context *context;
    uint64_t duration_ns;
    CUresult rc = context_current(&context);
    if (rc == CUDA_SUCCESS)
        rc = library_use(function);
    if (rc == CUDA_SUCCESS)
        rc = launch_check(&work, &duration_ns);
    return rc == CUDA_SUCCESS ? launch_queue(context, stream, &work, duration_ns) : rc;
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                             unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                             CUstream stream, void **params, void **extra) {
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared_bytes, own_stream(stream),
                          params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra) {
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                          config->blockDimX, config->blockDimY, config->blockDimZ,
                          config->sharedMemBytes, config->hStream, params, extra);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params,
                               void **extra) {
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    CUlaunchConfig own = *config;
    own.hStream = own_stream(config->hStream);
    return cuLaunchKernelEx(&own, function, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                   unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                                   CUstream stream, void **params) {
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, NULL);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                        unsigned bx, unsigned by, unsigned bz,
                                        unsigned shared_bytes, CUstream stream, void **params) {
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared_bytes, own_stream(stream),
                          params, NULL);
}
