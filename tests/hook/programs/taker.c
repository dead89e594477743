/* A tenant that wants more of the card's time than its share; linked with the driver.
 *
 *   taker zero COUNT          kernels of 2 ms; before each, zero into the ledger's paid_until_ns
 *   taker each COUNT MS       a process for each kernel of MS, which dies without a settling call
 *   taker contexts COUNT MS   a context for each kernel of MS
 *   taker uneven COUNT MS     many kernels of 10 us, and one of MS in the same shape, again and
 * again
 *   taker steady COUNT MS     kernels of MS
 *   taker fill COUNT          no kernel of its own: fills of 2 MiB, without end
 *
 * COUNT of these run at a time. The ledger lies in the working folder. All end with the first
 * process. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAID_UNTIL = 64 + 24 }; /* struct vcuda_ledger_file: its first card */

int cuInit(unsigned flags);
int cuCtxCreate_v2(void **context, unsigned flags, int device);
int cuCtxDestroy_v2(void *context);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra);
int cuCtxSynchronize(void);
int cuStreamQuery(void *stream);
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemsetD32Async(uint64_t address, unsigned value, size_t count, void *stream);

static void check(int result, const char *call) {
    if (result != 0) {
        fprintf(stderr, "taker: %s: %d\n", call, result);
        _exit(1);
    }
}
#define OK(call) check(call, #call)

static void *begin(void **context) {
    void *module, *function;
    OK(cuCtxCreate_v2(context, 0, 0));
    OK(cuModuleLoadData(&module, "\x7f"
                                 "ELF"));
    OK(cuModuleGetFunction(&function, module, "spin"));
    return function;
}

static void launch(void *function, uint32_t micros) {
    void *parameters[] = {&micros};
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
}

static void zero(void) {
    uint64_t nothing = 0;
    void *context, *function;
    int file = open("ledger", O_RDWR);
    OK(cuInit(0));
    function = begin(&context);
    for (;;) {
        pwrite(file, &nothing, sizeof nothing, PAID_UNTIL);
        launch(function, 2000);
        OK(cuCtxSynchronize());
    }
}

static void wait_unseen(void) {
    while (cuStreamQuery(NULL) != 0) {
        usleep(1000);
    }
}

static void each(uint32_t micros) {
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            void *context;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            OK(cuInit(0));
            launch(begin(&context), micros);
            wait_unseen();
            kill(getpid(), SIGKILL);
        }
        waitpid(child, NULL, 0);
    }
}

static void contexts(uint32_t micros) {
    OK(cuInit(0));
    for (;;) {
        void *context;
        launch(begin(&context), micros);
        wait_unseen();
        OK(cuCtxDestroy_v2(context));
    }
}

static void uneven(uint32_t micros) {
    void *context, *function;
    OK(cuInit(0));
    function = begin(&context);
    for (unsigned i = 0;; i++) {
        launch(function, i % 64 == 63 ? micros : 10);
        if (i % 64 == 62) {
            OK(cuCtxSynchronize());
        }
    }
}

static void steady(uint32_t micros) {
    void *context, *function;
    OK(cuInit(0));
    function = begin(&context);
    for (;;) {
        launch(function, micros);
        OK(cuCtxSynchronize());
    }
}

/* A synchronise after some, so that the queue is never full. */
static void fill(void) {
    enum { BYTES = 2 << 20, AT_A_TIME = 64 };
    void *context;
    uint64_t address;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuMemAlloc_v2(&address, BYTES));
    for (;;) {
        for (int i = 0; i < AT_A_TIME; i++) {
            OK(cuMemsetD32Async(address, 1, BYTES / 4, NULL));
        }
        OK(cuCtxSynchronize());
    }
}

int main(int argc, char **argv) {
    uint32_t micros = argc > 3 ? (uint32_t)atoi(argv[3]) * 1000 : 0;
    for (int i = 0; i < atoi(argv[2]); i++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (strcmp(argv[1], "zero") == 0) {
                zero();
            } else if (strcmp(argv[1], "each") == 0) {
                each(micros);
            } else if (strcmp(argv[1], "uneven") == 0) {
                uneven(micros);
            } else if (strcmp(argv[1], "steady") == 0) {
                steady(micros);
            } else if (strcmp(argv[1], "fill") == 0) {
                fill();
            }
            contexts(micros);
        }
    }
    pause();
    return 0;
}
