/* Launches, events and captures of the fake driver, on a time line of this process. */
#include "fake_launch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "fake_driver.h"

enum { STREAMS = 64, NOT_READY = 600 };
enum { ERROR_CAPTURED = 900, ERROR_UNMATCHED = 903, ERROR_IMPLICIT = 906 };
enum { MODE_GLOBAL = 0, MODE_RELAXED = 2 };

struct CUevent_st {
    unsigned long long at_ns;
};

static struct {
    pthread_mutex_t lock;
    struct {
        const void *id;
        unsigned long long busy_until;
        bool captured;
        int mode;
    } streams[STREAMS];
    unsigned long long busy_ns, busy_until; /* of the card: a union */
    unsigned long launches, captured, violations;
    _Atomic unsigned long events;
    CUresult failure;
    bool events_broken;
} line = {.lock = PTHREAD_MUTEX_INITIALIZER};
static __thread int thread_mode = MODE_GLOBAL;
static __thread char own_stream;

unsigned long fake_launches(void) { return line.launches; }
unsigned long fake_captured(void) { return line.captured; }
unsigned long fake_events_recorded(void) { return atomic_load(&line.events); }
unsigned long fake_capture_violations(void) { return line.violations; }
void fake_fail_next_launch(CUresult result) { line.failure = result; }
void fake_break_events(void) { line.events_broken = true; }

static unsigned long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (unsigned long long)time.tv_sec * 1000000000ULL + (unsigned long long)time.tv_nsec;
}

unsigned long long fake_busy_ns(void) {
    pthread_mutex_lock(&line.lock);
    unsigned long long now = now_ns();
    unsigned long long ahead = line.busy_until > now ? line.busy_until - now : 0;
    unsigned long long busy = line.busy_ns - ahead;
    pthread_mutex_unlock(&line.lock);
    return busy;
}

static unsigned find(CUstream stream, bool per_thread) {
    static const char legacy;
    const void *id = stream != NULL ? (const void *)stream : per_thread ? &own_stream : &legacy;
    unsigned place = 0;
    while (place < STREAMS - 1 && line.streams[place].id != NULL && line.streams[place].id != id) {
        place++;
    }
    line.streams[place].id = id;
    return place;
}

static bool somebody_captures(void) {
    for (unsigned i = 0; i < STREAMS; i++) {
        if (line.streams[i].captured && line.streams[i].mode == MODE_GLOBAL) {
            return true;
        }
    }
    return false;
}

/* Calls that the real driver counts as unsafe while a stream is captured in the global mode. */
static void unsafe_call(void) {
    line.violations += thread_mode == MODE_GLOBAL && somebody_captures();
}

static void (*_Atomic next_turn)(void);

void fake_give_turn(void (*turn)(void)) { next_turn = turn; }

void fake_take_turn(void) {
    void (*turn)(void) = atomic_exchange(&next_turn, NULL);
    if (turn != NULL) {
        turn();
    }
}

static CUresult run(uintptr_t handle, CUstream stream, bool per_thread) {
    fake_take_turn();
    pthread_mutex_lock(&line.lock);
    unsigned place = find(stream, per_thread);
    CUresult result = line.failure;
    line.failure = CUDA_SUCCESS;
    line.launches++;
    if (result == CUDA_SUCCESS && fake_current() == NULL) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (result == CUDA_SUCCESS && line.streams[place].captured) {
        line.captured++;
    } else if (result == CUDA_SUCCESS) {
        unsigned long long now = now_ns();
        unsigned long long *until = &line.streams[place].busy_until;
        unsigned long long begin = *until > now ? *until : now;
        *until = begin + handle - 1;
        begin = line.busy_until > begin ? line.busy_until : begin;
        line.busy_ns += *until > begin ? *until - begin : 0;
        line.busy_until = *until > line.busy_until ? *until : line.busy_until;
    }
    pthread_mutex_unlock(&line.lock);
    return result;
}

#define KERNEL(name, twin)                                                                         \
    name##_fn name;                                                                                \
    CUresult name(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,          \
                  unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,          \
                  CUstream stream, void **parameters, void **extra) {                              \
        (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;                  \
        (void)parameters, (void)extra;                                                             \
        return run((uintptr_t)function, stream, twin);                                             \
    }
KERNEL(cuLaunchKernel, false)
KERNEL(cuLaunchKernel_ptsz, true)

/* The same by a name that is not gated: the difference is the cost of a gate. */
CUresult fake_launch_ungated(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                             unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                             CUstream stream, void **parameters, void **extra) {
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}

#define COOPERATIVE(name, twin)                                                                    \
    name##_fn name;                                                                                \
    CUresult name(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,          \
                  unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,          \
                  CUstream stream, void **parameters) {                                            \
        (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;                  \
        (void)parameters;                                                                          \
        return run((uintptr_t)function, stream, twin);                                             \
    }
COOPERATIVE(cuLaunchCooperativeKernel, false)
COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)

#define CONFIGURED(name, twin)                                                                     \
    name##_fn name;                                                                                \
    CUresult name(const CUlaunchConfig *config, CUfunction function, void **parameters,            \
                  void **extra) {                                                                  \
        (void)parameters, (void)extra;                                                             \
        fake_take_turn();                                                                          \
        return config == NULL ? CUDA_ERROR_INVALID_VALUE                                           \
                              : run((uintptr_t)function, config->hStream, twin);                   \
    }
CONFIGURED(cuLaunchKernelEx, false)
CONFIGURED(cuLaunchKernelEx_ptsz, true)

cuLaunchCooperativeKernelMultiDevice_fn cuLaunchCooperativeKernelMultiDevice;
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned int count,
                                              unsigned int flags) {
    CUresult result = flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    fake_take_turn();
    for (unsigned int i = 0; result == CUDA_SUCCESS && i < count; i++) {
        result = run((uintptr_t)launches[i].function, launches[i].hStream, false);
    }
    return result;
}

cuLaunch_fn cuLaunch;
CUresult cuLaunch(CUfunction function) { return run((uintptr_t)function, NULL, false); }

cuLaunchGrid_fn cuLaunchGrid;
CUresult cuLaunchGrid(CUfunction function, int width, int height) {
    (void)width, (void)height;
    return run((uintptr_t)function, NULL, false);
}

cuLaunchGridAsync_fn cuLaunchGridAsync;
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
    (void)width, (void)height;
    return run((uintptr_t)function, stream, false);
}

cuGraphLaunch_fn cuGraphLaunch, cuGraphLaunch_ptsz;
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
    return fake_graph_is_made(graph) ? fake_graph_take(graph)
                                     : run((uintptr_t)graph, stream, false);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
    return run((uintptr_t)graph, stream, true);
}

cuEventCreate_fn cuEventCreate;
CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    (void)flags;
    pthread_mutex_lock(&line.lock);
    unsafe_call();
    bool broken = line.events_broken;
    pthread_mutex_unlock(&line.lock);
    *event = broken ? NULL : calloc(1, sizeof **event);
    return *event == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream, bool per_thread) {
    pthread_mutex_lock(&line.lock);
    unsigned place = find(stream, per_thread);
    atomic_fetch_add(&line.events, 1);
    line.violations += line.streams[place].captured;
    unsigned long long now = now_ns(), until = line.streams[place].busy_until;
    event->at_ns = until > now ? until : now;
    CUresult result = line.events_broken ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    pthread_mutex_unlock(&line.lock);
    return result;
}

cuEventRecord_fn cuEventRecord, cuEventRecord_ptsz;
CUresult cuEventRecord(CUevent event, CUstream stream) { return record(event, stream, false); }
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) { return record(event, stream, true); }

cuEventQuery_fn cuEventQuery;
CUresult cuEventQuery(CUevent event) {
    pthread_mutex_lock(&line.lock);
    unsafe_call();
    CUresult result = event->at_ns <= now_ns() ? CUDA_SUCCESS : NOT_READY;
    pthread_mutex_unlock(&line.lock);
    return result;
}

cuEventElapsedTime_fn cuEventElapsedTime;
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
    *milliseconds = (float)((double)(long long)(end->at_ns - begin->at_ns) / 1e6);
    return CUDA_SUCCESS;
}

static CUresult query(CUstream stream, bool per_thread) {
    pthread_mutex_lock(&line.lock);
    unsafe_call();
    unsigned place = find(stream, per_thread);
    CUresult result = line.streams[place].captured                ? ERROR_CAPTURED
                      : line.streams[place].busy_until > now_ns() ? NOT_READY
                                                                  : CUDA_SUCCESS;
    pthread_mutex_unlock(&line.lock);
    return result;
}

cuStreamQuery_fn cuStreamQuery, cuStreamQuery_ptsz;
CUresult cuStreamQuery(CUstream stream) { return query(stream, false); }
CUresult cuStreamQuery_ptsz(CUstream stream) { return query(stream, true); }

void fake_await(CUstream stream) {
    pthread_mutex_lock(&line.lock);
    unsigned long long until = line.streams[find(stream, false)].busy_until;
    pthread_mutex_unlock(&line.lock);
    struct timespec time = {.tv_sec = (time_t)(until / 1000000000ULL),
                            .tv_nsec = (long)(until % 1000000000ULL)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) {
    }
}

static CUresult is_capturing(CUstream stream, bool per_thread, int *status) {
    pthread_mutex_lock(&line.lock);
    *status = line.streams[find(stream, per_thread)].captured;
    bool implicit = stream == NULL && !per_thread && *status == 0 && somebody_captures();
    pthread_mutex_unlock(&line.lock);
    return implicit ? ERROR_IMPLICIT : CUDA_SUCCESS;
}

cuStreamIsCapturing_fn cuStreamIsCapturing, cuStreamIsCapturing_ptsz;
CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    return is_capturing(stream, false, status);
}
CUresult cuStreamIsCapturing_ptsz(CUstream stream, int *status) {
    return is_capturing(stream, true, status);
}

static CUresult capture(CUstream stream, bool per_thread, bool on, int mode) {
    pthread_mutex_lock(&line.lock);
    unsigned place = find(stream, per_thread);
    CUresult result = on || line.streams[place].captured ? CUDA_SUCCESS : ERROR_UNMATCHED;
    line.streams[place].captured = on;
    line.streams[place].mode = mode;
    pthread_mutex_unlock(&line.lock);
    return result;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    capture(stream, false, false, 0); /* with its capture */
    return CUDA_SUCCESS;
}

cuStreamBeginCapture_v2_fn cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz;
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    return capture(stream, false, true, mode);
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode) {
    return capture(stream, true, true, mode);
}

cuStreamEndCapture_fn cuStreamEndCapture, cuStreamEndCapture_ptsz;
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    *graph = NULL;
    return capture(stream, false, false, 0);
}
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    *graph = NULL;
    return capture(stream, true, false, 0);
}

cuThreadExchangeStreamCaptureMode_fn cuThreadExchangeStreamCaptureMode;
CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
