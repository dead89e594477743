/* For programs that use the simulated driver as any program uses a driver: linked to libcuda.so.1,
 * without knowledge of its inside. */
#ifndef SIMGPU_CLIENT_H
#define SIMGPU_CLIENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../src/cuda/cuda_abi.h"

#define API(name, symbol, since, params) CUresult symbol params;
#define STREAM(name, symbol, since, params) CUresult symbol params, symbol##_ptsz params;
#define DEFAULT(name, symbol, since, params) CUresult symbol params, symbol##_ptds params;
#include "../src/cuda/entries.def"
#undef API
#undef STREAM
#undef DEFAULT

#define MIB (1024UL * 1024)

/* Ends the program with a line that names the expected result. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define EXPECT_RC(call, wanted)                                                                    \
    do {                                                                                           \
        int got_ = (call);                                                                         \
        if (got_ != (wanted)) {                                                                    \
            fprintf(stderr, "%s:%d: %s answered %d, not %d\n", __FILE__, __LINE__, #call, got_,    \
                    (int)(wanted));                                                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call) EXPECT_RC(call, CUDA_SUCCESS)

static inline double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline CUcontext new_context(int device) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, device));
    return context;
}

static inline size_t free_bytes(void) {
    size_t left, total;
    OK(cuMemGetInfo_v2(&left, &total));
    return left;
}

static inline CUfunction kernel(const char *name) {
    CUmodule module;
    CUfunction function;
    OK(cuModuleLoadData(&module, "\x7f"
                                 "ELF"));
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

static inline void launch(CUfunction function, CUstream stream) {
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

#endif
