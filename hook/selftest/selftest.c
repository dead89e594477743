/*
 * gpustack-hook-selftest: says in JSON what the hook does in this container, and tries to exceed
 * the limits. Exit status 0: they hold; 1: something doesn't, named under "problems"; 2: wrong use.
 *
 * Run it in a container of a share: `/usr/local/vcuda/gpustack-hook-selftest`. It takes one context
 * of each card while it runs, and no memory: the requests that it makes must be refused.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "drivers.h"
#include "page.h"
#include "paths.h"
#include "report.h"

/* A page of the card: what is refused with this much more than is free can't be a rounding. */
#define PAGE_BYTES ((size_t)2 << 20)

typedef CUresult cuInit_fn(unsigned int flags);
typedef CUresult cuDriverGetVersion_fn(int *version);
typedef CUresult cuDeviceGetCount_fn(int *count);
typedef CUresult cuDeviceGet_fn(CUdevice *device, int ordinal);
typedef CUresult cuCtxSetCurrent_fn(CUcontext context);

static const char *const cuda_gates[] = {
#define LOADER_GATE(name)
#define CUDA_GATE(name, ...) #name,
#define NVML_GATE(name, ...)
#define CUDA_REAL(...)
#define NVML_REAL(...)
#include "symbols.def"
#undef CUDA_GATE
#undef NVML_GATE
};

static const char *const nvml_gates[] = {
#define CUDA_GATE(name, ...)
#define NVML_GATE(name, ...) #name,
#include "symbols.def"
};

_Static_assert((int)SYMBOL_COUNT <= (int)MAX_GATED, "the report names every gate");

/* Where the hook lies; NULL when this process doesn't have it. */
static const void *hook_base(const char **path) {
    Dl_info info;
    bool found = dladdr((void *)dlsym, &info) != 0 && strstr(info.dli_fname, "libvcuda") != NULL;
    *path = found ? info.dli_fname : NULL;
    return found ? info.dli_fbase : NULL;
}

static void check_gates(struct report *report, void *library, const char *const *names,
                        size_t count, const void *hook) {
    for (size_t i = 0; library != NULL && i < count; i++) {
        const void *address = dlsym(library, names[i]);
        Dl_info info;
        if (address == NULL) {
            continue; /* this driver is older than the name */
        }
        if (dladdr(address, &info) != 0 && info.dli_fbase == hook) {
            report_gated(report, names[i]);
        } else {
            report_problem(report, "%s is not gated", names[i]);
        }
    }
}

static void check_request(struct report *report, void *library, const char *what, size_t bytes) {
    cuMemAlloc_v2_fn *allocate = (cuMemAlloc_v2_fn *)dlsym(library, "cuMemAlloc_v2");
    cuMemFree_v2_fn *release = (cuMemFree_v2_fn *)dlsym(library, "cuMemFree_v2");
    CUdeviceptr pointer = 0;
    CUresult result = allocate(&pointer, bytes);
    if (result == CUDA_SUCCESS) {
        release(pointer);
        report_problem(report, "%zu bytes were granted: %s", bytes, what);
    } else if (result != CUDA_ERROR_OUT_OF_MEMORY) {
        report_problem(report, "%zu bytes, %s: refused with %d", bytes, what, result);
    }
}

static void check_card(struct report *report, void *library, CUdevice device, CUcontext context) {
    cuDeviceGetUuid_fn *get_uuid = (cuDeviceGetUuid_fn *)dlsym(library, "cuDeviceGetUuid");
    cuCtxSetCurrent_fn *set = (cuCtxSetCurrent_fn *)dlsym(library, "cuCtxSetCurrent");
    cuMemGetInfo_v2_fn *info = (cuMemGetInfo_v2_fn *)dlsym(library, "cuMemGetInfo_v2");
    struct card card = {.total_bytes = 0};
    CUuuid uuid;
    if (get_uuid(&uuid, device) != CUDA_SUCCESS || set(context) != CUDA_SUCCESS ||
        info(&card.free_bytes, &card.total_bytes) != CUDA_SUCCESS) {
        report_problem(report, "device %d can't be asked", device);
        return;
    }
    memcpy(card.uuid, uuid.bytes, sizeof card.uuid);
    const struct vcuda_device_limit *limit = report_limit(report, card.uuid);
    report_card(report, &card);
    if (limit == NULL) {
        report_problem(report, "device %d has no limits", device);
        return;
    }
    if (card.total_bytes > limit->memory_bytes) {
        report_problem(report, "device %d shows %zu bytes, its share is %llu", device,
                       card.total_bytes, (unsigned long long)limit->memory_bytes);
    }
    check_request(report, library, "more than the share", limit->memory_bytes + 1);
    check_request(report, library, "more than is free", card.free_bytes + PAGE_BYTES);
}

static void check_cards(struct report *report, void *library) {
    cuInit_fn *init = (cuInit_fn *)dlsym(library, "cuInit");
    cuDriverGetVersion_fn *version = (cuDriverGetVersion_fn *)dlsym(library, "cuDriverGetVersion");
    cuDeviceGetCount_fn *get_count = (cuDeviceGetCount_fn *)dlsym(library, "cuDeviceGetCount");
    cuDeviceGet_fn *get = (cuDeviceGet_fn *)dlsym(library, "cuDeviceGet");
    cuDevicePrimaryCtxRetain_fn *retain =
        (cuDevicePrimaryCtxRetain_fn *)dlsym(library, "cuDevicePrimaryCtxRetain");
    cuDevicePrimaryCtxRelease_v2_fn *release =
        (cuDevicePrimaryCtxRelease_v2_fn *)dlsym(library, "cuDevicePrimaryCtxRelease_v2");
    int count = 0;
    CUresult result = init(0);
    version(&report->driver_version);
    if (result == CUDA_SUCCESS) {
        result = get_count(&count);
    }
    if (result != CUDA_SUCCESS) {
        report_problem(report, "the driver doesn't start: %d", result);
    }
    for (int ordinal = 0; ordinal < count; ordinal++) {
        CUdevice device = 0;
        CUcontext context = NULL;
        get(&device, ordinal);
        result = retain(&context, device);
        if (result == CUDA_SUCCESS) {
            check_card(report, library, device, context);
            release(device);
        } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            report->full++; /* the tenant's own programs have taken all of its share */
        } else {
            report_problem(report, "device %d gives no context: %d", ordinal, result);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 1) {
        fprintf(stderr, "usage: %s\n", argv[0]);
        return 2;
    }
    static struct report report;
    static struct page limits;
    const void *hook = hook_base(&report.hook);
    if (hook == NULL) {
        report_problem(&report, "the hook is not loaded into this process");
    }
    if (page_refresh(&limits, HOOK_LIMITS_PATH, VCUDA_LIMITS_MAGIC)) {
        report.limits = &limits.body.limits;
    } else {
        report_problem(&report, "%s holds no limits of layout %u", HOOK_LIMITS_PATH,
                       VCUDA_LAYOUT_VERSION);
    }
    void *nvml = dlopen(NVML_SONAME, RTLD_NOW);
    check_gates(&report, nvml, nvml_gates, sizeof nvml_gates / sizeof *nvml_gates, hook);
    void *cuda = dlopen(CUDA_SONAME, RTLD_NOW);
    if (cuda == NULL) {
        report_problem(&report, "no driver: %s", dlerror());
    } else {
        check_gates(&report, cuda, cuda_gates, sizeof cuda_gates / sizeof *cuda_gates, hook);
        check_cards(&report, cuda);
    }
    report_print(&report);
    return report.problem_count == 0 ? 0 : 1;
}
