/*
 * Loads more copies of the driver than the hook tells apart: crowd DRIVER COPY...
 *
 * Prints, for DRIVER and then each COPY, how a request for 3 GiB ends: its code, or "none" where
 * the loader has no such function.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        void *context, *library = dlopen(argv[i], RTLD_NOW);
        uint64_t pointer;
        int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
        int (*retain)(void **, int) =
            (int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
        int (*set)(void *) = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
        int (*take)(uint64_t *, size_t) =
            (int (*)(uint64_t *, size_t))dlsym(library, "cuMemAlloc_v2");
        init(0);
        if (retain == NULL || take == NULL) {
            puts("none");
            continue;
        }
        retain(&context, 0);
        set(context);
        printf("%d\n", take(&pointer, (size_t)3000 << 20));
    }
    return 0;
}
