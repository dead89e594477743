/*
 * Prints, in microseconds, the median and the worst time from SIGKILL of a process that holds the
 * rest of a share until another one, which asks again and again, gets that; and beside them the
 * same times for the death itself, until the parent could collect it. A measurement and no test:
 * make bench runs it.
 */
#include <signal.h>
#include <unistd.h>

#include "launching.h"

enum { ROUNDS = 200 };
#define NEEDED (SHARE_BYTES - 2 * CONTEXT_BYTES)

static int holding[2];

static void hold(void) {
    context_make(0);
    allocate(NEEDED);
    tell(holding);
    pause();
}

static int compare(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static void print(uint64_t *ns, const char *after) {
    qsort(ns, ROUNDS, sizeof *ns, compare);
    printf("%.1f %.1f%s", (double)ns[ROUNDS / 2] / NS_PER_US, (double)ns[ROUNDS - 1] / NS_PER_US,
           after);
}

int main(void) {
    static uint64_t given_ns[ROUNDS], dead_ns[ROUNDS];
    files_make();
    context_make(0);
    CHECK(pipe(holding) == 0);
    cuMemAlloc_v2_fn *take = CUDA(cuMemAlloc_v2);
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr pointer;
        pid_t child = start_child(hold);
        await(holding);
        CHECK(take(&pointer, NEEDED) == CUDA_ERROR_OUT_OF_MEMORY);
        uint64_t begin = wall_ns();
        CHECK(kill(child, SIGKILL) == 0);
        while (take(&pointer, NEEDED) != CUDA_SUCCESS) {
        }
        given_ns[i] = wall_ns() - begin;
        CHECK(wait_child(child) == 128 + SIGKILL);
        dead_ns[i] = wall_ns() - begin;
        release(pointer);
    }
    print(given_ns, " ");
    print(dead_ns, "\n");
    return 0;
}
