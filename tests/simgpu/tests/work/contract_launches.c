/* Promises of the driver to CUDA programs: the other forms of launch, host functions, and
 * events. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "checks.h"

static CUstream new_stream(void) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static float elapsed_ms(CUevent start, CUevent end) {
    float milliseconds;
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    return milliseconds;
}

static void old_launches_use_what_was_set_before(void) {
    new_context(0);
    CUfunction function = kernel("spin");
    EXPECT_RC(cuLaunch(function), CUDA_ERROR_INVALID_VALUE); /* no block shape yet */
    EXPECT_RC(cuFuncSetBlockShape(function, 1024, 2, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetBlockShape(function, 32, 1, 1));
    OK(cuFuncSetSharedSize(function, 1024));
    OK(cuParamSetSize(function, 4));
    OK(cuParamSeti(function, 0, 3000));
    double began = now_seconds();
    OK(cuLaunch(function));
    OK(cuLaunchGrid(function, 2, 2));
    EXPECT_RC(cuLaunchGrid(function, 0, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuLaunchGridAsync(function, 1, 1, NULL));
    OK(cuCtxSynchronize());
    EXPECT(now_seconds() - began >= 0.009);
}

static void a_float_parameter_arrives_whole(void) {
    float value = 1.5f;
    uint32_t micros;
    new_context(0);
    CUfunction function = kernel("spin");
    memcpy(&micros, &value, sizeof micros);
    OK(cuFuncSetBlockShape(function, 1, 1, 1));
    OK(cuParamSetf(function, 0, value)); /* 1.5f as microseconds: 1 069 547 520, 18 minutes */
    OK(cuLaunch(function));
    EXPECT(micros == 1069547520);
    EXPECT_RC(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
}

static void one_launch_reaches_several_cards(void) {
    CUstream streams[2];
    CUDA_LAUNCH_PARAMS list[2];
    for (int device = 0; device < 2; device++) {
        new_context(device);
        streams[device] = new_stream();
        list[device] =
            (CUDA_LAUNCH_PARAMS){kernel("step_20ms"), 1, 1, 1, 1, 1, 1, 0, streams[device], NULL};
    }
    OK(cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
    EXPECT_RC(cuStreamQuery(streams[0]), CUDA_ERROR_NOT_READY);
    EXPECT_RC(cuStreamQuery(streams[1]), CUDA_ERROR_NOT_READY);
    list[1].gridDimX = 2;
    EXPECT_RC(cuLaunchCooperativeKernelMultiDevice(list, 2, 0), CUDA_ERROR_INVALID_VALUE);
    list[1] = list[0];
    EXPECT_RC(cuLaunchCooperativeKernelMultiDevice(list, 2, 0), CUDA_ERROR_INVALID_DEVICE);
    list[1].hStream = NULL;
    EXPECT_RC(cuLaunchCooperativeKernelMultiDevice(list, 2, 0), CUDA_ERROR_INVALID_HANDLE);
}

static atomic_int calls;
static int seen[2];
static pthread_t caller;
static void ask_the_driver(void *data) {
    CUdeviceptr memory;
    int version;
    const char *name;
    seen[0] = (int)cuMemAlloc_v2(&memory, 1);
    seen[1] = (int)cuStreamQuery(NULL);
    OK(cuDriverGetVersion(&version));
    OK(cuGetErrorName(CUDA_SUCCESS, &name));
    caller = pthread_self();
    atomic_store((atomic_int *)data, 1);
}

static void a_host_function_may_not_call_the_driver(void) {
    new_context(0);
    OK(cuLaunchHostFunc(NULL, ask_the_driver, &calls));
    OK(cuStreamSynchronize(NULL));
    EXPECT(atomic_load(&calls) == 1);
    EXPECT(seen[0] == CUDA_ERROR_NOT_PERMITTED && seen[1] == CUDA_ERROR_NOT_PERMITTED);
    EXPECT(!pthread_equal(caller, pthread_self()));
    EXPECT_RC(cuLaunchHostFunc(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static atomic_int gate;
static void wait_at_the_gate(void *data) {
    (void)data;
    while (!atomic_load(&gate)) {
    }
    atomic_store(&calls, 1);
}

static void a_stream_is_done_when_its_host_function_has_returned(void) {
    CUevent event;
    new_context(0);
    CUstream stream = new_stream(), other = new_stream();
    OK(cuEventCreate(&event, 0));
    OK(cuLaunchHostFunc(stream, wait_at_the_gate, NULL));
    OK(cuEventRecord(event, stream));
    OK(cuStreamSynchronize(other));
    EXPECT_RC(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_RC(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    atomic_store(&gate, 1);
    OK(cuEventSynchronize(event));
    EXPECT(atomic_load(&calls) == 1);
    OK(cuStreamQuery(stream));
}

static void a_host_function_comes_after_the_work_before_it(void) {
    new_context(0);
    CUstream stream = new_stream(), other = new_stream();
    launch(kernel("step_3600s"), stream);
    atomic_store(&gate, 1);
    OK(cuLaunchHostFunc(stream, ask_the_driver, &calls));
    OK(cuLaunchHostFunc(other, wait_at_the_gate, NULL)); /* not held up by the first */
    OK(cuStreamSynchronize(other));
    EXPECT_RC(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT(caller == 0);
}

static CUstream called_stream;
static CUresult called_status = CUDA_ERROR_UNKNOWN;
static void callback(CUstream stream, CUresult status, void *data) {
    called_stream = stream;
    called_status = status;
    atomic_store((atomic_int *)data, 1);
}

static void a_callback_gets_its_stream_and_status(void) {
    new_context(0);
    CUstream stream = new_stream();
    OK(cuStreamAddCallback(stream, callback, &calls, 0));
    OK(cuStreamSynchronize(stream));
    EXPECT(atomic_load(&calls) == 1 && called_stream == stream && called_status == CUDA_SUCCESS);
    EXPECT_RC(cuStreamAddCallback(stream, callback, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    EXPECT_RC(cuStreamAddCallback(stream, callback, NULL, 0),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

/* The default: half a microsecond; the test's machine may say otherwise. */
static void time_stamps_have_a_tick(void) {
    new_context(0);
    CUstream stream = new_stream();
    CUfunction function = kernel("step_700ns");
    for (int i = 0; i < 20; i++) {
        CUevent start, end;
        OK(cuEventCreate(&start, 0));
        OK(cuEventCreate(&end, 0));
        OK(cuEventRecord(start, stream));
        launch(function, stream);
        OK(cuEventRecord(end, stream));
        double ticks = (double)elapsed_ms(start, end) / 0.0005;
        EXPECT(ticks - (double)(long)(ticks + 0.5) < 0.01 && ticks >= 2);
    }
}

/* Behind other work, so that no gap between the calls is measured. */
static void recording_takes_its_time(void) {
    CUevent events[3];
    new_context(0);
    CUstream stream = new_stream();
    launch(kernel("step_20ms"), stream);
    for (int i = 0; i < 3; i++) {
        OK(cuEventCreate(&events[i], 0));
        OK(cuEventRecord(events[i], stream));
    }
    float empty = elapsed_ms(events[0], events[2]);
    EXPECT(empty > 0.0014f && empty < 0.0026f); /* two records of 1 us, one tick more or less */
}

static void *on_a_thread(void *context) {
    OK(cuCtxSetCurrent(context));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void each_thread_has_a_default_stream(void) {
    pthread_t thread;
    CUcontext context = new_context(0);
    launch(kernel("step_3600s"), CU_STREAM_PER_THREAD);
    EXPECT(pthread_create(&thread, NULL, on_a_thread, context) == 0);
    EXPECT(pthread_join(thread, NULL) == 0); /* its own stream holds nothing */
    EXPECT_RC(cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
    EXPECT_RC(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY); /* legacy: waits for blocking ones */
}

static void what_is_exported_but_not_simulated_is_refused(void) {
    void *texture;
    CUresult (*create)(void **);
    *(void **)&create = dlsym(RTLD_DEFAULT, "cuTexRefCreate");
    EXPECT(create);
    EXPECT_RC(create(&texture), CUDA_ERROR_NOT_INITIALIZED);
    new_context(0);
    EXPECT_RC(create(&texture), CUDA_ERROR_NOT_SUPPORTED);
}

static const struct check checks[] = {
    CHECK(old_launches_use_what_was_set_before),
    CHECK(a_float_parameter_arrives_whole),
    CHECK(one_launch_reaches_several_cards),
    CHECK(a_host_function_may_not_call_the_driver),
    CHECK(a_stream_is_done_when_its_host_function_has_returned),
    CHECK(a_host_function_comes_after_the_work_before_it),
    CHECK(a_callback_gets_its_stream_and_status),
    CHECK(time_stamps_have_a_tick),
    CHECK(recording_takes_its_time),
    CHECK(each_thread_has_a_default_stream),
    CHECK(what_is_exported_but_not_simulated_is_refused),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
