/* Launches: a duration, queued on the card's time line. */
#include <string.h>

#include "api.h"

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

/* Blocks, like the real driver, while the context has LAUNCH_QUEUE launches outstanding. */
static void wait_for_room(struct context *context) {
    pthread_mutex_lock(&driver.lock);
    uint64_t oldest = context->queue[context->launches % LAUNCH_QUEUE];
    pthread_mutex_unlock(&driver.lock);
    if (oldest)
        card_wait(context->card, oldest);
}

static CUresult enqueue(struct context *context, CUstream handle, uint64_t duration_ns) {
    CUresult rc = CUDA_SUCCESS;
    wait_for_room(context);
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = stream_of_handle(context, handle);
    if (!stream)
        rc = CUDA_ERROR_INVALID_HANDLE;
    else if (driver.state->cards[context->card].lost)
        rc = CUDA_ERROR_LAUNCH_FAILED;
    else
        context->queue[context->launches++ % LAUNCH_QUEUE] = stream_queue(stream, duration_ns);
    /* Before the time line forgets turns that events still want (SIM_SEGMENTS). */
    if (context->launches % 256 == 0)
        events_settle(context);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

static bool bad_geometry(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                         unsigned bz) {
    bool grid = gx == 0 || gy == 0 || gz == 0 || gx > 2147483647u || gy > 65535 || gz > 65535;
    bool block = bx == 0 || by == 0 || bz == 0 || bx > 1024 || by > 1024 || bz > 64;
    return grid || block || (uint64_t)bx * by * bz > 1024;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared_bytes, CUstream stream,
                        void **params, void **extra) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (bad_geometry(gx, gy, gz, bx, by, bz) || (params && extra) ||
        shared_bytes > (unsigned)function->attributes[8])
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t duration_ns = function->duration_ns;
    if (function->first_parameter)
        duration_ns = first_parameter(params, extra) * 1000ULL;
    return enqueue(context, stream, duration_ns);
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
