#include "hooks/launch/hooks_launch.h"

#include <stdlib.h>

#include "hooks/current_context.h"
#include "hooks/hooks_graph_memory.h"
#include "hooks/launch/hooks_launch_capture.h"
#include "limiter/limiter_settle.h"
#include "memory/process.h"
#include "shared/clock.h"

static struct limiter *limiter_of_process(void) {
    static void *_Atomic only;
    return process_memory(&only, sizeof(struct limiter));
}

/* The driver registered its own end before, so this one runs first. */
static void settle_at_exit(void) {
    launch_settle(NULL, NULL, 0);
    launch_forget(NULL, NULL, 0);
}

static void register_exit(void) {
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&done)) {
        atexit(settle_at_exit);
    }
}

/* Counts endings of contexts: a handle may come back as another context's. */
static _Atomic uint64_t forgotten;

/* The limiter's context of the calling thread. A thread rarely changes it, so it is kept; a child
 * finds the memory wiped, which fits no context. */
static CUresult find_context(struct driver *driver, struct limiter *limiter,
                             struct limiter_context **limited) {
    static __thread struct limiter_context *kept;
    static __thread uint64_t kept_at;
    cuCtxGetCurrent_fn *get_context = REAL(driver, cuCtxGetCurrent);
    CUcontext context = NULL;
    uint64_t now = atomic_load(&forgotten);
    bool known = get_context != NULL && get_context(&context) == CUDA_SUCCESS && context != NULL;
    if (known && kept != NULL && kept_at == now && atomic_load(&kept->context) == context &&
        kept->timer.driver == driver) {
        *limited = kept;
        return CUDA_SUCCESS;
    }
    struct current_context current;
    CUresult result = current_context_get(driver, &current);
    *limited = NULL;
    if (result != CUDA_SUCCESS || current.handle == NULL) {
        return result;
    }
    register_exit();
    *limited = kept = limiter_context_of(limiter, &current);
    kept_at = now;
    return kept == NULL ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

void launch_forget(const struct driver *driver, CUcontext context, CUdevice device) {
    struct limiter *limiter = limiter_of_process();
    if (limiter != NULL) {
        limiter_forget(limiter, driver, context, device);
        atomic_fetch_add(&forgotten, 1);
    }
}

void launch_settle(const struct driver *driver, CUcontext context, CUdevice device) {
    ERRNO_KEPT;
    struct limiter *limiter = limiter_of_process();
    if (limiter != NULL) {
        limiter_settle(limiter, driver, context, device);
    }
}

void launch_settle_current(struct driver *driver) {
    cuCtxGetCurrent_fn *get_context = REAL(driver, cuCtxGetCurrent);
    CUcontext context = NULL;
    if (get_context != NULL && get_context(&context) == CUDA_SUCCESS && context != NULL) {
        launch_settle(driver, context, 0);
    }
}

CUresult launch_begin(struct driver *driver, const struct gpu_timer_work *work,
                      struct launch *launch) {
    ERRNO_KEPT;
    launch->context = NULL;
    launch->captured = false;
    struct limiter *limiter = limiter_of_process();
    struct limiter_context *limited = NULL;
    CUresult result =
        limiter == NULL ? CUDA_ERROR_NOT_PERMITTED : find_context(driver, limiter, &limited);
    if (result != CUDA_SUCCESS || limited == NULL) {
        return result;
    }
    if (clock_now_coarse() < atomic_load(&limited->free_until)) {
        return CUDA_SUCCESS;
    }
    launch->captured = launch_begin_captured(driver, work);
    if (launch->captured) {
        return CUDA_SUCCESS;
    }
    launch->work = *work;
    result = limiter_begin(limiter, limited, work, &launch->limiter);
    launch->context = result == CUDA_SUCCESS ? limited : NULL;
    return result;
}

CUresult launch_end(struct launch *launch, CUresult result) {
    if (launch->captured) {
        captures_let_go();
    }
    if (launch->context != NULL && launch->limiter.counted) {
        ERRNO_KEPT;
        limiter_end(limiter_of_process(), launch->context, &launch->work, &launch->limiter, result);
    }
    return result;
}

static struct gpu_timer_work kernel(CUfunction function, uint64_t gx, uint64_t gy, uint64_t gz,
                                    uint64_t bx, uint64_t by, uint64_t bz, CUstream stream,
                                    bool per_thread) {
    /* Grids have at most 31, 16 and 16 bits, blocks 1024 threads (CUDA C++ Programming Guide,
     * "Technical Specifications"); shapes that mix to the same number share an estimate. */
    uint64_t shape = (gx << 32 ^ gy << 16 ^ gz) * 31 + (bx << 20 ^ by << 10 ^ bz) + 1;
    return (struct gpu_timer_work){.key = {.function = function, .shape = shape},
                                   .threads = gx * gy * gz * bx * by * bz,
                                   .stream = stream,
                                   .per_thread = per_thread};
}

CUresult gate_cuLaunchKernel(struct driver *driver, bool per_thread, CUfunction function,
                             unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                             unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                             void **parameters, void **extra) {
    const struct gpu_timer_work work = kernel(function, gx, gy, gz, bx, by, bz, stream, per_thread);
    struct launch launch;
    CUresult result = launch_begin(driver, &work, &launch);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return launch_end(
        &launch, REAL_TWIN(driver, per_thread, cuLaunchKernel)(function, gx, gy, gz, bx, by, bz,
                                                               shared, stream, parameters, extra));
}

CUresult gate_cuLaunchCooperativeKernel(struct driver *driver, bool per_thread, CUfunction function,
                                        unsigned int gx, unsigned int gy, unsigned int gz,
                                        unsigned int bx, unsigned int by, unsigned int bz,
                                        unsigned int shared, CUstream stream, void **parameters) {
    const struct gpu_timer_work work = kernel(function, gx, gy, gz, bx, by, bz, stream, per_thread);
    struct launch launch;
    CUresult result = launch_begin(driver, &work, &launch);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return launch_end(&launch, REAL_TWIN(driver, per_thread, cuLaunchCooperativeKernel)(
                                   function, gx, gy, gz, bx, by, bz, shared, stream, parameters));
}

/* Without a configuration the driver refuses. */
static struct gpu_timer_work configured(const CUlaunchConfig *config, CUfunction function,
                                        bool per_thread) {
    return kernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                  config->blockDimY, config->blockDimZ, config->hStream, per_thread);
}

/* The driver gets the configuration that was charged: another thread may change the program's
 * meanwhile, and its stream would be one that isn't captured. */
CUresult gate_cuLaunchKernelEx(struct driver *driver, bool per_thread, const CUlaunchConfig *config,
                               CUfunction function, void **parameters, void **extra) {
    bool known = config != NULL && driver_is_initialized(driver);
    const CUlaunchConfig own = known ? *config : (CUlaunchConfig){.gridDimX = 0};
    const struct gpu_timer_work work = configured(&own, function, per_thread);
    struct launch launch;
    CUresult result = launch_begin(driver, &work, &launch);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return launch_end(&launch, REAL_TWIN(driver, per_thread, cuLaunchKernelEx)(
                                   known ? &own : config, function, parameters, extra));
}

/* Launches from before CUDA 4 take their block from cuFuncSetBlockShape: the function stands for
 * it. */
static struct gpu_timer_work grid(CUfunction function, int width, int height, CUstream stream) {
    return kernel(function, (uint64_t)width, (uint64_t)height, 1, 1, 1, 1, stream, false);
}

CUresult gate_cuLaunch(struct driver *driver, CUfunction function) {
    const struct gpu_timer_work work = grid(function, 1, 1, NULL);
    struct launch launch;
    CUresult result = launch_begin(driver, &work, &launch);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return launch_end(&launch, REAL(driver, cuLaunch)(function));
}

CUresult gate_cuLaunchGrid(struct driver *driver, CUfunction function, int width, int height) {
    const struct gpu_timer_work work = grid(function, width, height, NULL);
    struct launch launch;
    CUresult result = launch_begin(driver, &work, &launch);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return launch_end(&launch, REAL(driver, cuLaunchGrid)(function, width, height));
}

CUresult gate_cuLaunchGridAsync(struct driver *driver, CUfunction function, int width, int height,
                                CUstream stream) {
    const struct gpu_timer_work work = grid(function, width, height, stream);
    struct launch launch;
    CUresult result = launch_begin(driver, &work, &launch);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return launch_end(&launch, REAL(driver, cuLaunchGridAsync)(function, width, height, stream));
}

/* A graph is one unit; an update that makes it longer or shorter shows in its next times. The
 * memory that it allocates is charged around the launch. */
CUresult gate_cuGraphLaunch(struct driver *driver, bool per_thread, CUgraphExec graph,
                            CUstream stream) {
    const struct gpu_timer_work work = {
        .key = {.function = graph}, .threads = 1, .stream = stream, .per_thread = per_thread};
    struct graph_memory memory;
    struct launch launch;
    CUresult result = graph_memory_begin(driver, graph, &memory);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = launch_begin(driver, &work, &launch);
    if (result == CUDA_SUCCESS) {
        result = launch_end(&launch, REAL_TWIN(driver, per_thread, cuGraphLaunch)(graph, stream));
    }
    return graph_memory_end(driver, graph, &memory, result);
}
