/*
 * A tenant that has work for the card. It knows nothing of the hook, and prints JSON.
 *
 *   tenant KERNELS rate                how many loops `spin` makes in a microsecond, alone
 *   tenant KERNELS run US LOOPS S      one kernel of US after another, for S seconds
 *   tenant KERNELS beat US LOOPS S REST  likewise, with a rest of so many microseconds after each
 *   tenant KERNELS cost ROUNDS         what a launch costs its caller, ns, round by round
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

#define EVENT_BLOCKING 1u
#define EVENT_NO_TIMING 2u
#define STREAM_NON_BLOCKING 1u
#define HOST_MAPPED 2u

static int (*cuInit)(unsigned);
static int (*cuDevicePrimaryCtxRetain)(CUcontext *, int);
static int (*cuCtxSetCurrent)(CUcontext);
static int (*cuCtxSynchronize)(void);
static int (*cuModuleLoadData)(CUmodule *, const void *);
static int (*cuModuleGetFunction)(CUfunction *, CUmodule, const char *);
static int (*cuMemHostAlloc)(void **, size_t, unsigned);
static int (*cuMemHostGetDevicePointer_v2)(uint64_t *, void *, unsigned);
static int (*cuStreamCreate)(CUstream *, unsigned);
static int (*cuEventCreate)(CUevent *, unsigned);
static int (*cuEventRecord)(CUevent, CUstream);
static int (*cuEventSynchronize)(CUevent);
static int (*cuEventElapsedTime)(float *, CUevent, CUevent);
static int (*cuLaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream, void **, void **);

static const struct {
    const char *name;
    void *place;
} needed[] = {
#define NEEDED(name) {#name, &name}
    NEEDED(cuInit),
    NEEDED(cuDevicePrimaryCtxRetain),
    NEEDED(cuCtxSetCurrent),
    NEEDED(cuCtxSynchronize),
    NEEDED(cuModuleLoadData),
    NEEDED(cuModuleGetFunction),
    NEEDED(cuMemHostAlloc),
    NEEDED(cuMemHostGetDevicePointer_v2),
    NEEDED(cuStreamCreate),
    NEEDED(cuEventCreate),
    NEEDED(cuEventRecord),
    NEEDED(cuEventSynchronize),
    NEEDED(cuEventElapsedTime),
    NEEDED(cuLaunchKernel),
};

static CUfunction spin, nothing;
static CUstream stream;
static volatile uint64_t *clock_ns; /* what `spin` has taken by the card's clock */
static uint64_t clock_address;

static void fail(const char *what, int code) {
    fprintf(stderr, "tenant: %s: %d\n", what, code);
    exit(1);
}

static void check_call(int code, const char *call) {
    if (code != 0) {
        fail(call, code);
    }
}
#define CHECK(call) check_call(call, #call)

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void find_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fail(dlerror(), 0);
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        void *address = dlsym(library, needed[i].name);
        if (address == NULL) {
            fail(needed[i].name, 0);
        }
        memcpy(needed[i].place, &address, sizeof address);
    }
}

static char *text_of(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail(path, 0);
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void begin(const char *kernels) {
    CUcontext context;
    CUmodule module;
    void *seen;
    find_driver();
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, text_of(kernels)));
    CHECK(cuModuleGetFunction(&spin, module, "spin"));
    CHECK(cuModuleGetFunction(&nothing, module, "nothing"));
    CHECK(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc(&seen, sizeof *clock_ns, HOST_MAPPED));
    clock_ns = seen;
    *clock_ns = 0;
    CHECK(cuMemHostGetDevicePointer_v2(&clock_address, seen, 0));
}

static void launch_spin(uint32_t microseconds, uint32_t loops) {
    void *parameters[] = {&microseconds, &loops, &clock_address};
    CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

/* The card comes up to its speed only when there is work. */
static void warm_up(uint32_t loops) {
    for (uint64_t until = now_ns() + 1000000000u; now_ns() < until;) {
        launch_spin(1000, loops);
        CHECK(cuCtxSynchronize());
    }
}

static void rate(void) {
    enum { MICROSECONDS = 20000, ROUNDS = 4 };
    double loops = 100;
    CUevent first, last;
    CHECK(cuEventCreate(&first, 0));
    CHECK(cuEventCreate(&last, 0));
    warm_up((uint32_t)loops);
    for (int round = 0; round < ROUNDS; round++) {
        float milliseconds = 0;
        CHECK(cuEventRecord(first, stream));
        launch_spin(MICROSECONDS, (uint32_t)(loops + 0.5));
        CHECK(cuEventRecord(last, stream));
        CHECK(cuEventSynchronize(last));
        CHECK(cuEventElapsedTime(&milliseconds, first, last));
        loops *= MICROSECONDS / 1000.0 / (double)milliseconds;
    }
    printf("{\"loops\": %.0f}\n", loops < 1 ? 1 : loops);
}

/* Two batches are queued at any time, each a kernel or 5 ms of them: the card never waits for us. A
 * point is written when a batch is over: the time, how many kernels were over, the card's clock. */
static void run(uint32_t microseconds, uint32_t loops, double seconds) {
    unsigned batch = microseconds < 5000 ? 5000 / microseconds : 1;
    CUevent ends[2];
    CHECK(cuEventCreate(&ends[0], EVENT_BLOCKING | EVENT_NO_TIMING));
    CHECK(cuEventCreate(&ends[1], EVENT_BLOCKING | EVENT_NO_TIMING));
    uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);
    uint64_t written = 0, now = 0;
    printf("{\"points\": [");
    for (unsigned long long done = 0, turn = 0; now < until; turn++) {
        for (unsigned i = 0; i < batch; i++) {
            launch_spin(microseconds, loops);
        }
        CHECK(cuEventRecord(ends[turn % 2], stream));
        if (turn == 0) {
            continue;
        }
        CHECK(cuEventSynchronize(ends[(turn - 1) % 2]));
        done += batch;
        now = now_ns();
        if (now - written >= 5000000u) {
            printf("%s[%llu, %llu, %llu]", written == 0 ? "" : ", ", (unsigned long long)now, done,
                   (unsigned long long)*clock_ns);
            written = now;
        }
    }
    CHECK(cuCtxSynchronize());
    printf("]}\n");
}

static void beat(uint32_t microseconds, uint32_t loops, double seconds, long rest_us) {
    const struct timespec rest = {.tv_sec = rest_us / 1000000, .tv_nsec = rest_us % 1000000 * 1000};
    uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);
    printf("{\"points\": [");
    for (unsigned long long done = 1; done == 1 || now_ns() < until; done++) {
        launch_spin(microseconds, loops);
        CHECK(cuCtxSynchronize());
        printf("%s[%llu, %llu, %llu]", done == 1 ? "" : ", ", (unsigned long long)now_ns(), done,
               (unsigned long long)*clock_ns);
        nanosleep(&rest, NULL);
    }
    printf("]}\n");
}

/* Between two rounds the card rests, so that no share is used up and no queue is full. */
static void cost(unsigned rounds) {
    enum { LAUNCHES = 256 };
    const struct timespec rest = {.tv_nsec = 5000000};
    printf("{\"ns\": [");
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t started = now_ns();
        for (int i = 0; i < LAUNCHES; i++) {
            CHECK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
        }
        printf("%s%.1f", round == 0 ? "" : ", ", (double)(now_ns() - started) / LAUNCHES);
        CHECK(cuCtxSynchronize());
        nanosleep(&rest, NULL);
    }
    printf("]}\n");
}

int main(int argc, char **argv) {
    const char *mode = argc > 2 ? argv[2] : "";
    int given = argc - 3;
    if (strcmp(mode, "rate") == 0 && given == 0) {
        begin(argv[1]);
        rate();
    } else if (strcmp(mode, "run") == 0 && given == 3) {
        begin(argv[1]);
        run((uint32_t)atol(argv[3]), (uint32_t)atol(argv[4]), atof(argv[5]));
    } else if (strcmp(mode, "beat") == 0 && given == 4) {
        begin(argv[1]);
        beat((uint32_t)atol(argv[3]), (uint32_t)atol(argv[4]), atof(argv[5]), atol(argv[6]));
    } else if (strcmp(mode, "cost") == 0 && given == 1) {
        begin(argv[1]);
        cost((unsigned)atol(argv[3]));
    } else {
        fprintf(stderr, "usage: tenant KERNELS rate | run US LOOPS SECONDS |"
                        " beat US LOOPS SECONDS REST | cost ROUNDS\n");
        return 2;
    }
    return 0;
}
