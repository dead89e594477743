/* Promises of the driver to CUDA programs: modules, launches, streams and events. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

static void ptx_knows_its_own_functions(void) {
    static const char ptx[] = "// made by hand\n.version 8.0\n.target sm_80\n"
                              ".visible .global .align 4 .u32 counter;\n"
                              ".visible .entry step_5us(\n.param .u64 a\n)\n{ ret; }\n";
    CUmodule module;
    CUfunction function;
    CUdeviceptr address;
    size_t bytes;
    new_context(0);
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&function, module, "step_5us"));
    EXPECT_RC(cuModuleGetFunction(&function, module, "step"), CUDA_ERROR_NOT_FOUND);
    EXPECT_RC(cuModuleGetFunction(&function, module, "counter"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetGlobal_v2(&address, &bytes, module, "counter"));
    OK(cuMemsetD32_v2(address, 3, 1));
    EXPECT_RC(cuModuleGetGlobal_v2(&address, &bytes, module, "other"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleUnload(module));
    EXPECT_RC(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
}

static void bad_launches_are_refused(void) {
    new_context(0);
    CUfunction function = kernel("f");
    int stream;
    EXPECT_RC(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_RC(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuLaunchKernel(function, 1, 1, 1, 1024, 2, 1, 0, NULL, NULL, NULL),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, (CUstream)&stream, NULL, NULL),
              CUDA_ERROR_INVALID_HANDLE);
}

/* Wall times are checked from below, where a busy machine cannot falsify them. */
static void a_kernel_takes_the_time_of_its_name(void) {
    CUevent start, end;
    float milliseconds;
    new_context(0);
    CUfunction function = kernel("step_3ms");
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    double began = now_seconds();
    OK(cuEventRecord(start, NULL));
    launch(function, NULL);
    launch(function, NULL);
    OK(cuEventRecord(end, NULL));
    EXPECT_RC(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
    EXPECT_RC(cuEventQuery(end), CUDA_ERROR_NOT_READY);
    EXPECT_RC(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    OK(cuEventSynchronize(end));
    EXPECT(now_seconds() - began >= 0.006);
    OK(cuStreamQuery(NULL));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    EXPECT(milliseconds > 5.99f && milliseconds < 6.5f);
}

static void a_spin_takes_its_parameter(void) {
    uint32_t micros = 4000;
    size_t size = sizeof micros;
    void *params[] = {&micros};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &micros, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
    new_context(0);
    CUfunction function = kernel("spin");
    double began = now_seconds();
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuLaunchKernelEx(&config, function, NULL, extra));
    OK(cuCtxSynchronize());
    EXPECT(now_seconds() - began >= 0.008);
}

static void streams_run_beside_each_other(void) {
    CUstream first, second;
    CUevent start, end;
    float milliseconds;
    new_context(0);
    CUfunction function = kernel("step_20ms");
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuEventRecord(start, first));
    launch(function, first);
    launch(function, second);
    OK(cuEventRecord(end, second));
    OK(cuCtxSynchronize());
    OK(cuEventElapsedTime(&milliseconds, start, end));
    EXPECT(milliseconds < 30);
}

static void the_legacy_stream_waits_for_blocking_ones(void) {
    CUstream blocking, free_running;
    new_context(0);
    OK(cuStreamCreate(&blocking, 0));
    OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    launch(kernel("step_10ms"), blocking);
    launch(kernel("step_1us"), NULL);
    launch(kernel("step_1us"), free_running);
    double began = now_seconds();
    OK(cuStreamSynchronize(free_running));
    EXPECT_RC(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(NULL));
    OK(cuStreamQuery(blocking));
    EXPECT(now_seconds() - began < 5); /* an upper bound for a hang, not a measurement */
}

static void a_stream_waits_for_an_event(void) {
    CUstream first, second;
    CUevent event;
    new_context(0);
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    launch(kernel("step_10ms"), first);
    OK(cuEventRecord(event, first));
    OK(cuStreamWaitEvent(second, event, 0));
    launch(kernel("step_1us"), second);
    EXPECT_RC(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(second));
    OK(cuStreamQuery(first));
    OK(cuStreamDestroy_v2(first));
    EXPECT_RC(cuStreamQuery(first), CUDA_ERROR_INVALID_HANDLE);
}

static void a_forked_child_has_no_driver(void) {
    int status;
    new_context(0);
    pid_t child = fork();
    if (child == 0)
        _exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(cuCtxSynchronize());
}

static const struct check checks[] = {
    CHECK(ptx_knows_its_own_functions),         CHECK(bad_launches_are_refused),
    CHECK(a_kernel_takes_the_time_of_its_name), CHECK(a_spin_takes_its_parameter),
    CHECK(streams_run_beside_each_other),       CHECK(the_legacy_stream_waits_for_blocking_ones),
    CHECK(a_stream_waits_for_an_event),         CHECK(a_forked_child_has_no_driver),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
