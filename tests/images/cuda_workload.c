/* A CUDA application for tests: allocates memory, launches kernels, says as JSON what it got.
 *
 * It finds the driver as applications do, with dlopen and dlsym, and calls the driver API only, so
 * it runs on a real card as well. It prints one line when its memory is allocated and, when it
 * launches kernels, a second one when they are done. An allocation or launch that the driver
 * refuses is a result and not a failure; when another call fails, the exit status is 1 and the last
 * line says which. 2: called wrongly. */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define STEPS_MAX 64
#define DEVICES_MAX 64

/* Keeps one thread of a card busy for so many microseconds of the card's own clock. The simulated
 * driver doesn't run it: there a kernel of this name takes as long as its parameter says. */
static const char spin_ptx[] = ".version 6.0\n"
                               ".target sm_50\n"
                               ".address_size 64\n"
                               ".visible .entry spin(.param .u32 microseconds)\n"
                               "{\n"
                               "    .reg .u32 %microseconds;\n"
                               "    .reg .u64 %length, %start, %now;\n"
                               "    .reg .pred %early;\n"
                               "    ld.param.u32 %microseconds, [microseconds];\n"
                               "    mul.wide.u32 %length, %microseconds, 1000;\n"
                               "    mov.u64 %start, %globaltimer;\n"
                               "again:\n"
                               "    mov.u64 %now, %globaltimer;\n"
                               "    sub.u64 %now, %now, %start;\n"
                               "    setp.lt.u64 %early, %now, %length;\n"
                               "    @%early bra again;\n"
                               "    ret;\n"
                               "}\n";

struct memory {
    size_t free_bytes, total_bytes;
};

struct device {
    char name[128];
    CUuuid uuid;
    struct memory memory;
};

struct step {
    bool keep; /* --allocate; else --try: freed at once */
    size_t mib;
    CUresult result;
    struct memory after;
};

struct options {
    int device;
    uint32_t kernel_us;
    double seconds;
    bool ahead;
    bool hold;
    int steps;
    struct step step[STEPS_MAX];
};

static struct driver cuda;
/* A container's first process gets only those signals that it has a handler for. */
static volatile sig_atomic_t stopping;

static void on_stop(int signal_number) {
    (void)signal_number;
    stopping = 1;
}

static void usage(void) {
    fputs("usage: cuda-workload [--device N] [--allocate MIB]... [--try MIB]...\n"
          "                     [--kernel-us D --seconds T [--ahead]] [--hold]\n"
          "  --device N     the device to work on, 0 when not given\n"
          "  --allocate MIB allocate and keep; with --try in the order given\n"
          "  --try MIB      allocate and free again\n"
          "  --kernel-us D  launch kernels of D microseconds, one after the other\n"
          "  --seconds T    for so long (default 1)\n"
          "  --ahead        without waiting for one before the next is launched\n"
          "  --hold         then wait for SIGTERM or SIGINT\n",
          stderr);
    exit(2);
}

/* Reads a whole number from 0 to INT_MAX; anything else is a wrong call. */
static uint32_t number(const char *text) {
    char *end;

    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value > INT_MAX) {
        fprintf(stderr, "cuda-workload: not a number: %s\n", text);
        usage();
    }
    return (uint32_t)value;
}

static void add_step(struct options *options, bool keep, const char *text) {
    if (options->steps == STEPS_MAX) {
        fprintf(stderr, "cuda-workload: more than %d allocations\n", STEPS_MAX);
        usage();
    }
    options->step[options->steps++] = (struct step){.keep = keep, .mib = number(text)};
}

static struct options parse(int argc, char **argv) {
    static const struct option known[] = {
        {"device", required_argument, NULL, 'd'},  {"allocate", required_argument, NULL, 'a'},
        {"try", required_argument, NULL, 't'},     {"kernel-us", required_argument, NULL, 'k'},
        {"seconds", required_argument, NULL, 's'}, {"ahead", no_argument, NULL, 'q'},
        {"hold", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    struct options options = {.seconds = 1};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'd':
            options.device = (int)number(optarg);
            break;
        case 'a':
        case 't':
            add_step(&options, option == 'a', optarg);
            break;
        case 'k':
            options.kernel_us = number(optarg);
            break;
        case 's':
            options.seconds = number(optarg);
            break;
        case 'q':
            options.ahead = true;
            break;
        case 'h':
            options.hold = true;
            break;
        default:
            usage();
        }
    }
    if (optind != argc) {
        usage();
    }
    return options;
}

static void driver_load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        printf("{\"error\": \"dlopen\", \"result\": \"libcuda.so.1 cannot be loaded\"}\n");
        fprintf(stderr, "cuda-workload: %s\n", dlerror());
        exit(1);
    }
#define LOOK_UP(name, arguments)                                                                   \
    *(void **)&cuda.name = dlsym(library, #name);                                                  \
    if (cuda.name == NULL) {                                                                       \
        printf("{\"error\": \"dlsym\", \"result\": \"no %s\"}\n", #name);                          \
        exit(1);                                                                                   \
    }
    DRIVER_CALLS(LOOK_UP)
#undef LOOK_UP
}

static const char *result_name(CUresult result) {
    const char *name = NULL;

    if (cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) {
        return "unknown";
    }
    return name;
}

/* Ends the program when a call without which nothing can be done failed. */
static void need(CUresult result, const char *call) {
    if (result != CUDA_SUCCESS) {
        printf("{\"error\": \"%s\", \"result\": \"%s\"}\n", call, result_name(result));
        exit(1);
    }
}

static struct memory memory_now(void) {
    struct memory memory;

    need(cuda.cuMemGetInfo_v2(&memory.free_bytes, &memory.total_bytes), "cuMemGetInfo");
    return memory;
}

/* Makes the device's primary context the current one. */
static CUdevice device_enter(int ordinal) {
    CUdevice device;
    CUcontext context;

    need(cuda.cuDeviceGet(&device, ordinal), "cuDeviceGet");
    need(cuda.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    need(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    return device;
}

static void device_look(int ordinal, struct device *seen) {
    CUdevice device = device_enter(ordinal);

    need(cuda.cuDeviceGetName(seen->name, sizeof seen->name, device), "cuDeviceGetName");
    need(cuda.cuDeviceGetUuid(&seen->uuid, device), "cuDeviceGetUuid");
    seen->memory = memory_now();
    need(cuda.cuCtxSetCurrent(NULL), "cuCtxSetCurrent");
    need(cuda.cuDevicePrimaryCtxRelease_v2(device), "cuDevicePrimaryCtxRelease");
}

static void device_print(int ordinal, const struct device *seen) {
    printf("{\"index\": %d, \"name\": \"%s\", \"uuid\": \"GPU-", ordinal, seen->name);
    for (int i = 0; i < 16; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        printf("%s%02x", dash, seen->uuid.bytes[i]);
    }
    printf("\", \"total\": %zu, \"free\": %zu}", seen->memory.total_bytes, seen->memory.free_bytes);
}

static void step_take(struct step *step) {
    CUdeviceptr address;

    step->result = cuda.cuMemAlloc_v2(&address, step->mib * MIB);
    if (step->result == CUDA_SUCCESS && !step->keep) {
        need(cuda.cuMemFree_v2(address), "cuMemFree");
    }
    step->after = memory_now();
}

/* Prints, as a member of the report, those steps that keep their memory or those that don't. */
static void steps_print(const struct options *options, bool keep, const char *name) {
    const char *comma = "";

    printf(", \"%s\": [", name);
    for (int i = 0; i < options->steps; i++) {
        const struct step *step = &options->step[i];
        if (step->keep != keep) {
            continue;
        }
        printf("%s{\"mib\": %zu, \"result\": \"%s\", \"free\": %zu, \"total\": %zu}", comma,
               step->mib, result_name(step->result), step->after.free_bytes,
               step->after.total_bytes);
        comma = ", ";
    }
    fputs("]", stdout);
}

/* Looks at all devices, does the allocations on one of them, then prints both as one line. */
static void report(struct options *options) {
    static struct device seen[DEVICES_MAX];
    int count;

    need(cuda.cuDeviceGetCount(&count), "cuDeviceGetCount");
    for (int i = 0; i < count && i < DEVICES_MAX; i++) {
        device_look(i, &seen[i]);
    }
    device_enter(options->device);
    for (int i = 0; i < options->steps; i++) {
        step_take(&options->step[i]);
    }
    printf("{\"count\": %d, \"devices\": [", count);
    for (int i = 0; i < count && i < DEVICES_MAX; i++) {
        fputs(i == 0 ? "" : ", ", stdout);
        device_print(i, &seen[i]);
    }
    fputs("]", stdout);
    steps_print(options, true, "allocations");
    steps_print(options, false, "tries");
    fputs("}\n", stdout);
}

static double now_seconds(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Launches kernels until the time is over, a signal came or the driver refuses. */
static void launch(const struct options *options) {
    CUmodule module;
    CUfunction function;
    uint32_t microseconds = options->kernel_us;
    uint64_t launches = 0;
    void *parameters[] = {&microseconds};
    CUresult result = CUDA_SUCCESS;

    need(cuda.cuModuleLoadData(&module, spin_ptx), "cuModuleLoadData");
    need(cuda.cuModuleGetFunction(&function, module, "spin"), "cuModuleGetFunction");
    const double start = now_seconds();
    double elapsed = 0;
    while (!stopping && result == CUDA_SUCCESS && elapsed < options->seconds) {
        result = cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
        if (result == CUDA_SUCCESS && !options->ahead) {
            result = cuda.cuCtxSynchronize();
        }
        launches += result == CUDA_SUCCESS;
        elapsed = now_seconds() - start;
    }
    if (result == CUDA_SUCCESS && options->ahead) {
        result = cuda.cuCtxSynchronize();
        elapsed = now_seconds() - start;
    }
    printf("{\"kernel_us\": %u, \"seconds\": %.3f, \"launches\": %llu, \"result\": \"%s\"}\n",
           microseconds, elapsed, (unsigned long long)launches, result_name(result));
}

/* Sleeps until a signal to stop has come; the mask keeps it from slipping in before the sleep. */
static void hold(void) {
    sigset_t stop, before;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, &before);
    while (!stopping) {
        sigsuspend(&before);
    }
}

int main(int argc, char **argv) {
    struct options options = parse(argc, argv);
    const struct sigaction action = {.sa_handler = on_stop};

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    /* line by line, also into a pipe: a test reads the report while the memory is held */
    setvbuf(stdout, NULL, _IOLBF, 0);
    driver_load();
    need(cuda.cuInit(0), "cuInit");
    report(&options);
    if (options.kernel_us != 0) {
        launch(&options);
    }
    if (options.hold) {
        hold();
    }
    return 0;
}
