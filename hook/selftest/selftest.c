/*
 * gpustack-hook-selftest: says what the hook does in this container, and tries to exceed the
 * limits. Exit status 0: they hold; 1: they don't, and why is said; 2: wrong use, or there is
 * nothing to test: no card, no driver, no limits.
 *
 * Run it in a container of a share: `/etc/vcuda/hook/gpustack-hook-selftest`. It takes one context
 * of each card while it runs and 2 s of launches, and no memory: what it asks for must be refused.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attempts.h"
#include "shared/paths.h"
#include "shared/shared_page.h"
#include "shared/sys.h"

typedef CUresult cuInit_fn(unsigned int flags);
typedef CUresult cuDriverGetVersion_fn(int *version);
typedef CUresult cuDeviceGetCount_fn(int *count);
typedef CUresult cuDeviceGet_fn(CUdevice *device, int ordinal);
typedef CUresult cuCtxSetCurrent_fn(CUcontext context);
typedef nvmlReturn_t nvmlInit_v2_fn(void);
typedef nvmlReturn_t nvmlShutdown_fn(void);
typedef nvmlReturn_t nvmlSystemGetDriverVersion_fn(char *version, unsigned int length);

struct options {
    bool json, gated, quick;
};

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

/* The hook counts in it, and so has to be able to write to it. */
static void check_ledger(struct report *report) {
    struct vcuda_ledger_header header = {.version = 0};
    struct stat found;
    int fd = sys_open(HOOK_LEDGER_PATH, O_RDWR);
    if (fd < 0 && fd != -ENOENT) {
        report_problem(report, "%s can't be opened for writing (%s): nothing can be counted",
                       HOOK_LEDGER_PATH, strerror(-fd));
    } else if (fd < 0 || !sys_stat(fd, &found) ||
               found.st_size != sizeof(struct vcuda_ledger_file)) {
        report_problem(report, "%s is missing or not whole: nothing can be counted",
                       HOOK_LEDGER_PATH);
    } else if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
               memcmp(header.magic, VCUDA_LEDGER_MAGIC, sizeof header.magic) != 0 ||
               !VCUDA_LAYOUT_IS_READ(header.version)) {
        report_problem(report,
                       "%s holds no ledger of layout %u to %u: a program of this container wrote"
                       " over it, and nothing can be counted until the container is started anew",
                       HOOK_LEDGER_PATH, VCUDA_LAYOUT_OLDEST, VCUDA_LAYOUT_VERSION);
    }
    if (fd >= 0) {
        sys_close(fd);
    }
}

static void check_files(struct report *report, struct shared_page *limits) {
    if (shared_page_refresh(limits, HOOK_LIMITS_PATH, VCUDA_LIMITS_MAGIC)) {
        report->limits = &limits->body.limits;
    } else {
        report->missing = true;
        report_problem(report,
                       "%s holds no limits of layout %u to %u: is this a container with a share of"
                       " a card?",
                       HOOK_LIMITS_PATH, VCUDA_LAYOUT_OLDEST, VCUDA_LAYOUT_VERSION);
    }
    if (report->limits != NULL) {
        check_ledger(report);
    }
}

/* A context of the card is current. */
static void check_card(struct report *report, void *library, struct card *card, CUdevice device,
                       const struct options *options) {
    cuMemGetInfo_v2_fn *info = DRIVER(library, cuMemGetInfo_v2);
    const struct vcuda_device_limit *limit = report_limit(report, card->uuid);
    char uuid[UUID_CHARS];
    report_uuid(card->uuid, uuid);
    CUresult result = info(&card->free_bytes, &card->total_bytes);
    if (result != CUDA_SUCCESS) {
        report_problem(report, "%s: its memory can't be asked for: error %d", uuid, result);
        return;
    }
    if (card->total_bytes > limit->memory_bytes) {
        report_problem(report, "%s shows %zu bytes, its share is %llu", uuid, card->total_bytes,
                       (unsigned long long)limit->memory_bytes);
    }
    try_memory(report, library, card, device);
    if (options->quick) {
        report_attempt(card, "GPU time", NOT_TRIED, "--quick was given");
    } else {
        try_compute(report, library, card);
    }
}

static void enter_card(struct report *report, void *library, int ordinal,
                       const struct options *options) {
    CUdevice device = 0;
    CUcontext context = NULL;
    CUuuid uuid;
    struct card *card = report_card(report);
    if (card == NULL || DRIVER(library, cuDeviceGet)(&device, ordinal) != CUDA_SUCCESS ||
        DRIVER(library, cuDeviceGetUuid)(&uuid, device) != CUDA_SUCCESS) {
        report_problem(report, "device %d has no name", ordinal);
        return;
    }
    memcpy(card->uuid, uuid.bytes, sizeof card->uuid);
    CUresult result = DRIVER(library, cuDevicePrimaryCtxRetain)(&context, device);
    bool limited = report_limit(report, card->uuid) != NULL;
    if (result == CUDA_SUCCESS && limited) {
        DRIVER(library, cuCtxSetCurrent)(context);
        check_card(report, library, card, device, options);
    } else if (!limited && report->limits != NULL) {
        report_problem(report, "device %d is none of the cards that have limits", ordinal);
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        card->full = true; /* the tenant's own programs have taken all of its share */
    } else if (result == CUDA_ERROR_NOT_PERMITTED && limited && report->problem_count == 0) {
        report_problem(report,
                       "device %d: the hook finds no place in %s to count it. It has none for this"
                       " card, or all %u are taken by other processes of the container",
                       ordinal, HOOK_LEDGER_PATH, VCUDA_LEDGER_SLOTS);
    } else if (limited) {
        report_problem(report, "device %d gives no context: error %d", ordinal, result);
    } else if (result == CUDA_SUCCESS) {
        report_problem(report, "device %d gives a context, though there are no limits", ordinal);
    }
    if (result == CUDA_SUCCESS) {
        DRIVER(library, cuDevicePrimaryCtxRelease_v2)(device);
    }
}

static void check_driver(struct report *report, void *library, const struct options *options) {
    int count = 0;
    CUresult result = DRIVER(library, cuInit)(0);
    DRIVER(library, cuDriverGetVersion)(&report->cuda_version);
    if (result == CUDA_SUCCESS) {
        result = DRIVER(library, cuDeviceGetCount)(&count);
    }
    if (result != CUDA_SUCCESS || count == 0) {
        report->missing = true;
        report_problem(report, "the driver finds no card: error %d", result);
    }
    for (int ordinal = 0; report->hook != NULL && ordinal < count; ordinal++) {
        enter_card(report, library, ordinal, options);
    }
}

static void ask_version(struct report *report, void *library) {
    nvmlInit_v2_fn *init = DRIVER(library, nvmlInit_v2);
    nvmlSystemGetDriverVersion_fn *get = DRIVER(library, nvmlSystemGetDriverVersion);
    nvmlShutdown_fn *end = DRIVER(library, nvmlShutdown);
    if (init != NULL && get != NULL && end != NULL && init() == NVML_SUCCESS) {
        if (get(report->driver_version, sizeof report->driver_version) != NVML_SUCCESS) {
            report->driver_version[0] = '\0';
        }
        end();
    }
}

static void check(struct report *report, const struct options *options) {
    static struct shared_page limits;
    const void *hook = hook_base(&report->hook);
    check_files(report, &limits);
    void *nvml = dlopen(NVML_SONAME, RTLD_NOW);
    void *cuda = dlopen(CUDA_SONAME, RTLD_NOW);
    if (hook == NULL) {
        report_problem(report, "the hook is not loaded into this process: nothing is gated, and"
                               " nothing was tried. /etc/ld.so.preload must name libvcuda.so");
    } else {
        check_gates(report, nvml, nvml_gates, sizeof nvml_gates / sizeof *nvml_gates, hook);
        check_gates(report, cuda, cuda_gates, sizeof cuda_gates / sizeof *cuda_gates, hook);
    }
    if (cuda == NULL) {
        report->missing = true;
        report_problem(report, "there is no driver: %s", dlerror());
    } else {
        check_driver(report, cuda, options);
    }
    if (nvml != NULL) {
        ask_version(report, nvml);
    }
}

static bool read_options(int argc, char **argv, struct options *options) {
    for (int i = 1; i < argc; i++) {
        bool *option = strcmp(argv[i], "--json") == 0    ? &options->json
                       : strcmp(argv[i], "--gated") == 0 ? &options->gated
                       : strcmp(argv[i], "--quick") == 0 ? &options->quick
                                                         : NULL;
        if (option == NULL) {
            return false;
        }
        *option = true;
    }
    return true;
}

int main(int argc, char **argv) {
    static struct report report;
    struct options options = {.json = false};
    if (!read_options(argc, argv, &options)) {
        fprintf(stderr,
                "usage: %s [--json] [--gated] [--quick]\n"
                "  --json   the report as JSON\n"
                "  --gated  lists the functions that are gated\n"
                "  --quick  tries no launches, which take 2 s a card\n",
                argv[0]);
        return 2;
    }
    check(&report, &options);
    if (options.json) {
        print_json(&report);
    } else {
        print_text(&report, options.gated);
    }
    return report_status(&report);
}
