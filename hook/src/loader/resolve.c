#include "loader/resolve.h"

#include <dlfcn.h>

#include "loader/drivers.h"
#include "loader/dt_needed.h"
#include "loader/elf_objects.h"
#include "shared/sys.h"

typedef void *dlsym_fn(void *handle, const char *name);
typedef void *dlvsym_fn(void *handle, const char *name, const char *version);

static bool begins(const char *text, const char *prefix) {
    while (*prefix != '\0' && *text == *prefix) {
        text++;
        prefix++;
    }
    return *prefix == '\0';
}

static bool is_gated(const char *name) {
    if (begins(name, "dl")) {
        return text_equal(name, "dlsym") || text_equal(name, "dlvsym");
    }
    return (begins(name, "cu") || begins(name, "nvml")) && drivers_gate(name);
}

/* libc's function of this name: in libc since glibc 2.34, in libdl before. */
static void *libc_function(void *_Atomic *known, const char *name) {
    void *function = atomic_load(known);
    if (function == NULL) {
        function = elf_objects_find("libc.so.6", name);
        function = function == NULL ? elf_objects_find("libdl.so.2", name) : function;
        atomic_store(known, function);
    }
    return function;
}

static dlsym_fn *libc_dlsym(void) {
    static void *_Atomic known;
    return (dlsym_fn *)libc_function(&known, "dlsym");
}

static dlvsym_fn *libc_dlvsym(void) {
    static void *_Atomic known;
    return (dlvsym_fn *)libc_function(&known, "dlvsym");
}

static void *search(void *handle, const char *name, const char *version) {
    if (version == NULL) {
        return libc_dlsym()(handle, name);
    }
    return libc_dlvsym()(handle, name, version);
}

/*
 * The definition that a search from `caller` meets when our own is left out: the next one in the
 * global scope, or one in a library that the caller itself needs. RTLD_NEXT means from the caller
 * on; the objects that it would skip are left out too.
 */
static void *search_without_us(void *handle, const char *name, const char *version,
                               const void *caller) {
    void *found = search(RTLD_NEXT, name, version);
    if (found != NULL && handle == RTLD_NEXT &&
        elf_objects_position(found) <= elf_objects_position(caller)) {
        found = NULL;
    }
    if (found == NULL && (handle == RTLD_DEFAULT || handle == RTLD_NEXT)) {
        const char *soname = begins(name, "nvml") ? NVML_SONAME : CUDA_SONAME;
        found = dt_needed_find(caller, soname, name);
        if (found != NULL) {
            search(RTLD_NEXT, "dlsym", NULL); /* one that succeeds: dlerror has no message */
        }
    }
    return found;
}

static void *answer_loader(void *found) {
    if (found == (void *)libc_dlsym()) {
        return (void *)dlsym;
    }
    return found == (void *)libc_dlvsym() ? (void *)dlvsym : found;
}

static void *answer_gated(void *handle, const char *name, const char *version, void *caller) {
    if (begins(name, "dl")) {
        return answer_loader(search(handle, name, version));
    }
    void *found = handle == RTLD_NEXT ? search_without_us(handle, name, version, caller)
                                      : search(handle, name, version);
    if (found != NULL && drivers_own(found)) {
        found = search_without_us(handle, name, version, caller);
    }
    drivers_scan();
    void *routed = drivers_route(found);
    return routed == found && drivers_is_stray(found) ? NULL : routed;
}

struct dlsym_answer hook_dlsym_answer(void *handle, const char *name, const char *version,
                                      void *caller) {
    ERRNO_KEPT;
    void *tail = version == NULL ? (void *)libc_dlsym() : (void *)libc_dlvsym();
    if (tail == NULL || name == NULL || !is_gated(name)) {
        return (struct dlsym_answer){.tail = tail};
    }
    return (struct dlsym_answer){.value = answer_gated(handle, name, version, caller)};
}

/* The driver answers into the gate's own memory: another thread of the program would find the
 * driver's function in the program's. What the driver leaves as it was stays so. */
CUresult gate_cuGetProcAddress(struct driver *driver, const char *name, void **function,
                               int version, cuuint64_t flags) {
    void *found = &found;
    CUresult result =
        REAL(driver, cuGetProcAddress)(name, function == NULL ? NULL : &found, version, flags);
    if (found != &found) {
        *function = drivers_route(found);
    }
    return result;
}

CUresult gate_cuGetProcAddress_v2(struct driver *driver, const char *name, void **function,
                                  int version, cuuint64_t flags, int *status) {
    void *found = &found;
    CUresult result = REAL(driver, cuGetProcAddress_v2)(name, function == NULL ? NULL : &found,
                                                        version, flags, status);
    if (found != &found) {
        *function = drivers_route(found);
    }
    return result;
}
