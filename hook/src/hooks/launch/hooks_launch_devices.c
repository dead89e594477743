#include "hooks/launch/hooks_launch_devices.h"

#include "hooks/current_context.h"
#include "hooks/launch/hooks_launch.h"

/* Cards of one host; the driver takes one part a card. */
enum { MAX_PARTS = VCUDA_MAX_CARDS };

/* The part's own context, for as long as its charge and its events take; the program's own context
 * comes back in any case. */
static CUresult enter(struct driver *driver, CUstream stream, bool *entered) {
    cuStreamGetCtx_fn *get = REAL(driver, cuStreamGetCtx);
    cuCtxPushCurrent_v2_fn *push = REAL(driver, cuCtxPushCurrent_v2);
    CUcontext context = NULL;
    *entered = get != NULL && push != NULL && get(stream, &context) == CUDA_SUCCESS &&
               push(context) == CUDA_SUCCESS;
    return *entered ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
}

static void leave(struct driver *driver, bool entered) {
    cuCtxPopCurrent_v2_fn *pop = REAL(driver, cuCtxPopCurrent_v2);
    CUcontext context;
    if (entered && pop != NULL) {
        pop(&context);
    }
}

static CUresult begin_part(struct driver *driver, const CUDA_LAUNCH_PARAMS *part,
                           struct launch *launch) {
    const struct gpu_timer_work work = {
        .key = {.function = part->function,
                .shape = (uint64_t)part->gridDimX << 32 | part->blockDimX},
        .threads = (uint64_t)part->gridDimX * part->gridDimY * part->gridDimZ * part->blockDimX,
        .stream = part->hStream};
    bool entered;
    *launch = (struct launch){.context = NULL};
    CUresult result = enter(driver, part->hStream, &entered);
    if (result == CUDA_SUCCESS) {
        result = launch_begin(driver, &work, launch);
    }
    leave(driver, entered);
    return result;
}

static void end_part(struct driver *driver, const CUDA_LAUNCH_PARAMS *part, struct launch *launch,
                     CUresult result) {
    bool entered;
    if (launch->context == NULL) {
        launch_end(launch, result);
        return;
    }
    enter(driver, part->hStream, &entered);
    launch_end(launch, result);
    leave(driver, entered);
}

CUresult gate_cuLaunchCooperativeKernelMultiDevice(struct driver *driver,
                                                   CUDA_LAUNCH_PARAMS *launches, unsigned int count,
                                                   unsigned int flags) {
    struct launch parts[MAX_PARTS];
    CUDA_LAUNCH_PARAMS own[MAX_PARTS]; /* another thread may change the program's meanwhile */
    unsigned int begun = 0;
    CUresult result = CUDA_SUCCESS;
    bool senseless = !driver_is_initialized(driver) || launches == NULL || count > MAX_PARTS;
    unsigned int known = senseless ? 0 : count; /* then the driver refuses */
    while (begun < known && result == CUDA_SUCCESS) {
        own[begun] = launches[begun];
        result = begin_part(driver, &own[begun], &parts[begun]);
        begun += result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS) {
        result = REAL(driver, cuLaunchCooperativeKernelMultiDevice)(senseless ? launches : own,
                                                                    count, flags);
    }
    for (unsigned int i = 0; i < begun; i++) {
        end_part(driver, &own[i], &parts[i], result);
    }
    return result;
}
