/* A CUDA process for tests of sharing: does as its arguments say, then waits for its input's end.
 *
 *   client DEVICE alloc BYTES        takes memory
 *   client DEVICE queue MS           queues one kernel of that length, does not wait for it
 *   client DEVICE spin US SECONDS    launches and waits, over and over; prints how many
 *   client DEVICE avoid US SECONDS   the same, but idle whenever NVML takes a sample of the card,
 * six times a second; prints how many client DEVICE measure US         prints the microseconds
 * between events around such a kernel client DEVICE tries COUNT        allocates so often; prints
 * the results
 *
 * Prints one line when it is done with its part: "ready", or the number of kernels that ran. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "client.h"

/* Samples come at full sixths of a second of the monotonic clock here; on a card a tenant can find
 * out when. MARGIN covers a neighbour's turn, and what a sleep is late. */
#define PERIOD (1 / 6.0)
#define MARGIN 0.01

static void work_until(double last_phase) {
    double phase = fmod(now_seconds(), PERIOD);
    if (phase < last_phase)
        return;
    struct timespec pause = {0, (long)((PERIOD - phase + 1e-3) * 1e9)};
    nanosleep(&pause, NULL);
}

/* last_phase: since a sample, in seconds; none begins later. */
static void spin(uint32_t micros, double seconds, double last_phase) {
    CUfunction function = kernel("spin");
    void *params[] = {&micros};
    unsigned long count = 0;
    for (double end = now_seconds() + seconds; now_seconds() < end; count++) {
        work_until(last_phase);
        OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        OK(cuCtxSynchronize());
    }
    printf("%lu\n", count);
}

static void copies(uint32_t micros, int rounds, double seconds) {
    CUfunction function = kernel("spin");
    CUdeviceptr device;
    CUstream stream;
    void *params[] = {&micros}, *host = calloc(1, 1000000);
    OK(cuMemAlloc_v2(&device, 1000000));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    double end = now_seconds() + seconds;
    for (int i = 0; i < rounds || now_seconds() < end; i++) {
        OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
        OK(cuMemcpyHtoDAsync_v2(device, host, 1000000, stream));
        if (i >= rounds && i % 8 == 7)
            OK(cuStreamSynchronize(stream));
    }
    puts("ready");
}

/* Behind other work, so that no gap between the calls is measured. */
static void measure(uint32_t micros) {
    CUfunction function = kernel("spin");
    CUevent start, end;
    uint32_t before = 20000;
    float milliseconds;
    void *first[] = {&before}, *params[] = {&micros};
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, first, NULL));
    OK(cuEventRecord(start, NULL));
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    OK(cuEventRecord(end, NULL));
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    printf("%.1f\n", (double)milliseconds * 1000);
}

static void tries(int count) {
    CUdeviceptr address;
    for (int i = 0; i < count; i++)
        printf("%d ", (int)cuMemAlloc_v2(&address, 1));
    puts("");
}

int main(int argc, char **argv) {
    EXPECT(argc >= 4);
    new_context(atoi(argv[1]));
    if (strcmp(argv[2], "alloc") == 0) {
        CUdeviceptr address;
        OK(cuMemAlloc_v2(&address, strtoull(argv[3], NULL, 10)));
        puts("ready");
    } else if (strcmp(argv[2], "queue") == 0) {
        uint32_t micros = (uint32_t)atoi(argv[3]) * 1000;
        void *params[] = {&micros};
        OK(cuLaunchKernel(kernel("spin"), 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        puts("ready");
    } else if (strcmp(argv[2], "measure") == 0) {
        measure((uint32_t)atoi(argv[3]));
    } else if (strcmp(argv[2], "copies") == 0) {
        copies((uint32_t)atoi(argv[3]), atoi(argv[4]), 0);
    } else if (strcmp(argv[2], "rounds") == 0) {
        copies((uint32_t)atoi(argv[3]), 0, atof(argv[4]));
    } else if (strcmp(argv[2], "tries") == 0) {
        tries(atoi(argv[3]));
    } else {
        EXPECT(argc == 5);
        uint32_t micros = (uint32_t)atoi(argv[3]);
        bool avoids = strcmp(argv[2], "avoid") == 0, bursts = strcmp(argv[2], "bursts") == 0;
        spin(micros, atof(argv[4]),
             bursts   ? PERIOD / 3
             : avoids ? PERIOD - MARGIN - micros / 1e6
                      : PERIOD);
    }
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
