/* Linked with the driver: prints which library holds each function, as linked and as asked for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                        int *status);

static void say(const char *name, void *address) {
    Dl_info info;
    const char *slash = dladdr(address, &info) == 0 ? NULL : strrchr(info.dli_fname, '/');
    printf("%s %s\n", name, slash == NULL ? "nowhere" : slash + 1);
}

int main(void) {
    void *found = NULL;
    say("cuInit", (void *)cuInit);
    say("cuMemAlloc_v2", (void *)cuMemAlloc_v2);
    say("cuInit", dlsym(RTLD_NEXT, "cuInit"));
    say("cuMemAlloc_v2", dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
    cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, NULL);
    say("cuMemAlloc_v2", found);
    return found == (void *)cuMemAlloc_v2 && found == dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") ? 0 : 1;
}
