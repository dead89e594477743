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

/* NULL: it goes to the driver as it is. */
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
        free(wrapped); /* it will never run */
    }
    return result;
}

#define GATE_HOST_FUNCTION(name, twin)                                                             \
    CUresult gate_##name(struct driver *driver, CUstream stream, CUhostFn function, void *data) {  \
        struct wrapped *wrapped =                                                                  \
            wrap(driver, stream, twin, (struct wrapped){.function = function, .data = data});      \
        return wrapped == NULL                                                                     \
                   ? REAL(driver, name)(stream, function, data)                                    \
                   : settle(wrapped, REAL(driver, name)(stream, run_function, wrapped));           \
    }

GATE_HOST_FUNCTION(cuLaunchHostFunc, false)
GATE_HOST_FUNCTION(cuLaunchHostFunc_ptsz, true)

#define GATE_HOST_FUNCTION_V2(name, twin)                                                          \
    CUresult gate_##name(struct driver *driver, CUstream stream, CUhostFn function, void *data,    \
                         unsigned int mode) {                                                      \
        struct wrapped *wrapped =                                                                  \
            wrap(driver, stream, twin, (struct wrapped){.function = function, .data = data});      \
        return wrapped == NULL                                                                     \
                   ? REAL(driver, name)(stream, function, data, mode)                              \
                   : settle(wrapped, REAL(driver, name)(stream, run_function, wrapped, mode));     \
    }

GATE_HOST_FUNCTION_V2(cuLaunchHostFunc_v2, false)
GATE_HOST_FUNCTION_V2(cuLaunchHostFunc_v2_ptsz, true)

#define GATE_CALLBACK(name, twin)                                                                  \
    CUresult gate_##name(struct driver *driver, CUstream stream, CUstreamCallback callback,        \
                         void *data, unsigned int flags) {                                         \
        struct wrapped *wrapped =                                                                  \
            wrap(driver, stream, twin, (struct wrapped){.callback = callback, .data = data});      \
        return wrapped == NULL                                                                     \
                   ? REAL(driver, name)(stream, callback, data, flags)                             \
                   : settle(wrapped, REAL(driver, name)(stream, run_callback, wrapped, flags));    \
    }

GATE_CALLBACK(cuStreamAddCallback, false)
GATE_CALLBACK(cuStreamAddCallback_ptsz, true)
