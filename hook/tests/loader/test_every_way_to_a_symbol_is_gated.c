/* dlsym, dlvsym, cuGetProcAddress in both forms, dlsym of dlsym: gated names give the gate, all
 * others the driver's own, and without a driver in scope none. */
#include <dlfcn.h>
#include <string.h>

#include "support.h"

/* The version of libc's first symbols. */
#ifdef __aarch64__
#define OLDEST_GLIBC "GLIBC_2.17"
#else
#define OLDEST_GLIBC "GLIBC_2.2.5"
#endif

static const char *file_of(const void *address) {
    Dl_info info;
    CHECK(dladdr(address, &info) != 0);
    return info.dli_fname;
}

static void expect_in(const void *address, const char *file) {
    CHECK(address != NULL);
    if (strstr(file_of(address), file) == NULL) {
        fprintf(stderr, "%p lies in %s, not in %s\n", address, file_of(address), file);
        _Exit(1);
    }
}

static void ask_the_driver(void *library) {
    cuGetProcAddress_fn *one = (cuGetProcAddress_fn *)dlsym(library, "cuGetProcAddress");
    cuGetProcAddress_v2_fn *two = (cuGetProcAddress_v2_fn *)dlsym(library, "cuGetProcAddress_v2");
    void *found = NULL;
    int status = 7;
    CHECK(one("cuMemAlloc", &found, 2000, 0) == CUDA_SUCCESS);
    CHECK(found == dlsym(library, "cuMemAlloc"));
    CHECK(two("cuMemAlloc", &found, 12000, 0, &status) == CUDA_SUCCESS && status == 0);
    CHECK(found == dlsym(library, "cuMemAlloc_v2"));
    CHECK(two("cuMemAllocAsync", &found, 12000, 2, NULL) == CUDA_SUCCESS);
    CHECK(found == dlsym(library, "cuMemAllocAsync_ptsz"));
    CHECK(one("cuGetProcAddress", &found, 11030, 0) == CUDA_SUCCESS && found == (void *)one);
    CHECK(one("cuGetProcAddress", &found, 12000, 0) == CUDA_SUCCESS && found == (void *)two);
    CHECK(two("cuInit", &found, 12000, 0, NULL) == CUDA_SUCCESS);
    expect_in(found, "libcuda.so.1");
    found = (void *)one;
    CHECK(one("cuNothing", &found, 12000, 0) == CUDA_ERROR_NOT_FOUND && found == (void *)one);
    CHECK(two("cuNothing", &found, 12000, 0, &status) == CUDA_SUCCESS && found == NULL);
    CHECK(status == 1);
}

int main(void) {
    files_make();
    CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL);
    CHECK(dlerror() != NULL);
    CHECK(dlsym(RTLD_NEXT, "cuMemAlloc_v2") == NULL);
    CHECK(dlsym(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2") == NULL);

    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL); /* local: not in our scope */
    void *gate = dlsym(library, "cuMemAlloc_v2");
    expect_in(gate, "libvcuda.so");
    expect_in(dlsym(library, "cuInit"), "libcuda.so.1");
    CHECK(dlsym(library, "cuMemGetMemPool") == NULL); /* not in this driver */
    ask_the_driver(library);

    void *(*libc_dlsym)(void *, const char *) =
        (void *(*)(void *, const char *))dlsym(RTLD_NEXT, "dlsym");
    expect_in((void *)libc_dlsym, "libvcuda.so");
    CHECK(libc_dlsym(library, "cuMemAlloc_v2") == gate);
    expect_in(dlvsym(RTLD_NEXT, "dlsym", OLDEST_GLIBC), "libvcuda.so");
    expect_in(dlvsym(RTLD_NEXT, "malloc", OLDEST_GLIBC), "libc.so.6");
    void *versioned = dlvsym(library, "cuMemAlloc_v2", OLDEST_GLIBC);
    CHECK(versioned == NULL || versioned == gate);

    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == library);
    CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == gate);
    CHECK(dlsym(RTLD_NEXT, "cuMemAlloc_v2") == gate);
    CHECK(dlsym(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2") == gate);
    return 0;
}
