/* A program that is linked with the driver: linked MIB [hold]; takes MIB, and prints as client.c
 * does. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemGetInfo_v2(size_t *available, size_t *total);
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);

int main(int argc, char **argv) {
    void *context;
    uint64_t pointer;
    size_t available = 0, total = 0;
    if (argc < 2 || cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0) {
        return 1;
    }
    if (cuCtxSetCurrent(context) != 0 || cuMemGetInfo_v2(&available, &total) != 0) {
        return 1;
    }
    printf("%zu %d\n", total >> 20, cuMemAlloc_v2(&pointer, strtoul(argv[1], NULL, 10) << 20));
    fflush(stdout);
    if (argc > 2) {
        getchar();
    }
    return 0;
}
