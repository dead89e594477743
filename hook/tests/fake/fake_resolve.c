/* cuGetProcAddress of the fake driver. */
#include <string.h>

#include "fake_driver.h"
#include "fake_launch.h"

cuMemAlloc_fn cuMemAlloc;
cuMemAlloc_v2_fn cuMemAlloc_v2;
cuMemFree_v2_fn cuMemFree_v2;
cuMemAllocAsync_fn cuMemAllocAsync, cuMemAllocAsync_ptsz;
cuGetProcAddress_fn cuGetProcAddress;
cuGetProcAddress_v2_fn cuGetProcAddress_v2;

/* Names and versions as the real driver answers them: reference of each in symbols.def's source. */
static void *by_name(const char *name, int version, cuuint64_t flags) {
    const struct {
        const char *name;
        int since;
        cuuint64_t flags; /* 2: per-thread default stream */
        void *function;
    } known[] = {
        {"cuMemAlloc", 3020, 0, (void *)cuMemAlloc_v2},
        {"cuMemAlloc", 2000, 0, (void *)cuMemAlloc},
        {"cuMemFree", 3020, 0, (void *)cuMemFree_v2},
        {"cuMemAllocAsync", 11020, 2, (void *)cuMemAllocAsync_ptsz},
        {"cuMemAllocAsync", 11020, 0, (void *)cuMemAllocAsync},
        {"cuGetProcAddress", 12000, 0, (void *)cuGetProcAddress_v2},
        {"cuGetProcAddress", 11030, 0, (void *)cuGetProcAddress},
        {"cuInit", 2000, 0, (void *)cuInit},
    };
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) == 0 && version >= known[i].since &&
            (known[i].flags == 0 || known[i].flags == flags)) {
            return known[i].function;
        }
    }
    return NULL;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
    void *found = by_name(name, version, flags);
    if (found != NULL) {
        *function = found;
    }
    fake_take_turn();
    return found == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             int *status) {
    *function = by_name(name, version, flags);
    if (status != NULL) {
        *status = *function == NULL;
    }
    fake_take_turn();
    return CUDA_SUCCESS;
}
