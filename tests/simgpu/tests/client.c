/* A CUDA process for tests of sharing: does as its arguments say, then waits for its input's end.
 *
 *   client DEVICE alloc BYTES        takes memory
 *   client DEVICE queue MS           queues one kernel of that length, does not wait for it
 *   client DEVICE spin US SECONDS    launches and waits, over and over; prints how many
 *
 * Prints one line when it is done with its part: "ready", or the number of kernels that ran. */
#include <string.h>

#include "client.h"

static void spin(uint32_t micros, double seconds) {
    CUfunction function = kernel("spin");
    void *params[] = {&micros};
    unsigned long count = 0;
    for (double end = now_seconds() + seconds; now_seconds() < end; count++) {
        OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        OK(cuCtxSynchronize());
    }
    printf("%lu\n", count);
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
    } else {
        EXPECT(argc == 5);
        spin((uint32_t)atoi(argv[3]), atof(argv[4]));
    }
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
