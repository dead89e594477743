#include "hooks/launch/hooks_launch_callback.h"

#include <stdlib.h>

#include "hooks/launch/hooks_launch_capture.h"
#include "shared/sys.h"

static __thread unsigned depth;

struct wrapped {
    CUhostFn function;
    CUstreamCallback callback;
    void *data;
};

bool launch_in_callback(void) { return depth != 0; }

static void run_function(void *data) {
    struct wrapped wrapped = *(struct wrapped *)data;
    free(data);
    depth++;
    wrapped.function(wrapped.data);
    depth--;
}

static void run_callback(CUstream stream, CUresult status, void *data) {
    struct wrapped wrapped = *(struct wrapped *)data;
    free(data);
    depth++;
    wrapped.callback(stream, status, wrapped.data);
    depth--;
}

/* NULL: the callback goes to the driver as it is. */
static struct wrapped *wrap(struct driver *driver, CUstream stream, bool per_thread,
                            struct wrapped content) {
    ERRNO_KEPT;
    const struct gpu_timer_work work = {.stream = stream, .per_thread = per_thread};
    struct wrapped *made = NULL;
    bool is_none = content.function == NULL && content.callback == NULL;
    if (!is_none && !launch_would_be_captured(driver, &work)) {
        made = malloc(sizeof *made);
    }
    if (made != NULL) {
        *made = content;
    }
    return made;
}

static CUresult settle(struct wrapped *wrapped, CUresult result) {
    if (result != CUDA_SUCCESS) {
        ERRNO_KEPT;
        free(wrapped); /* the callback will never run */
    }
    return result;
}

static CUresult host_function(struct driver *driver, cuLaunchHostFunc_fn *launch, CUstream stream,
                              CUhostFn function, void *data, bool per_thread) {
    struct wrapped *wrapped =
        wrap(driver, stream, per_thread, (struct wrapped){.function = function, .data = data});
    return wrapped == NULL ? launch(stream, function, data)
                           : settle(wrapped, launch(stream, run_function, wrapped));
}

CUresult gate_cuLaunchHostFunc(struct driver *driver, CUstream stream, CUhostFn function,
                               void *data) {
    return host_function(driver, REAL(driver, cuLaunchHostFunc), stream, function, data, false);
}

CUresult gate_cuLaunchHostFunc_ptsz(struct driver *driver, CUstream stream, CUhostFn function,
                                    void *data) {
    return host_function(driver, REAL(driver, cuLaunchHostFunc_ptsz), stream, function, data, true);
}

static CUresult host_function_v2(struct driver *driver, cuLaunchHostFunc_v2_fn *launch,
                                 CUstream stream, CUhostFn function, void *data, unsigned int mode,
                                 bool per_thread) {
    struct wrapped *wrapped =
        wrap(driver, stream, per_thread, (struct wrapped){.function = function, .data = data});
    return wrapped == NULL ? launch(stream, function, data, mode)
                           : settle(wrapped, launch(stream, run_function, wrapped, mode));
}

CUresult gate_cuLaunchHostFunc_v2(struct driver *driver, CUstream stream, CUhostFn function,
                                  void *data, unsigned int mode) {
    return host_function_v2(driver, REAL(driver, cuLaunchHostFunc_v2), stream, function, data, mode,
                            false);
}

CUresult gate_cuLaunchHostFunc_v2_ptsz(struct driver *driver, CUstream stream, CUhostFn function,
                                       void *data, unsigned int mode) {
    return host_function_v2(driver, REAL(driver, cuLaunchHostFunc_v2_ptsz), stream, function, data,
                            mode, true);
}

static CUresult add_callback(struct driver *driver, cuStreamAddCallback_fn *add, CUstream stream,
                             CUstreamCallback callback, void *data, unsigned int flags,
                             bool per_thread) {
    struct wrapped *wrapped =
        wrap(driver, stream, per_thread, (struct wrapped){.callback = callback, .data = data});
    return wrapped == NULL ? add(stream, callback, data, flags)
                           : settle(wrapped, add(stream, run_callback, wrapped, flags));
}

CUresult gate_cuStreamAddCallback(struct driver *driver, CUstream stream, CUstreamCallback callback,
                                  void *data, unsigned int flags) {
    return add_callback(driver, REAL(driver, cuStreamAddCallback), stream, callback, data, flags,
                        false);
}

CUresult gate_cuStreamAddCallback_ptsz(struct driver *driver, CUstream stream,
                                       CUstreamCallback callback, void *data, unsigned int flags) {
    return add_callback(driver, REAL(driver, cuStreamAddCallback_ptsz), stream, callback, data,
                        flags, true);
}
