/* Launches as fast as it may, and compares the time that its kernels ran with the time that passed.
 * Only alone: beside others a kernel's own clock also counts the others' turns. */
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "attempts.h"
#include "shared/paths.h"
#include "shared/shared_page.h"

#define NS_PER_S UINT64_C(1000000000)
enum { KERNEL_US = 5000, AT_ONCE = 4, UNWATCHED_MS = 500, WATCHED_MS = 1500 };
/* The contract's error is for ten seconds; what is saved up unused weighs more in fewer. */
enum { TOLERANCE_POINTS = 10 };

typedef struct CUmod_st *CUmodule;
typedef CUresult cuModuleLoadData_fn(CUmodule *module, const void *image);
typedef CUresult cuModuleGetFunction_fn(CUfunction *function, CUmodule module, const char *name);
typedef CUresult cuModuleUnload_fn(CUmodule module);

/* Runs for its argument in microseconds by the card's clock. */
static const char spin_ptx[] = ".version 6.0\n"
                               ".target sm_50\n"
                               ".address_size 64\n"
                               ".visible .entry spin(.param .u32 microseconds) {\n"
                               "  .reg .u64 %begin, %now, %span;\n"
                               "  .reg .u32 %us;\n"
                               "  .reg .pred %more;\n"
                               "  mov.u64 %begin, %globaltimer;\n"
                               "  ld.param.u32 %us, [microseconds];\n"
                               "  mul.wide.u32 %span, %us, 1000;\n"
                               "AGAIN:\n"
                               "  mov.u64 %now, %globaltimer;\n"
                               "  sub.u64 %now, %now, %begin;\n"
                               "  setp.lt.u64 %more, %now, %span;\n"
                               "  @%more bra AGAIN;\n"
                               "  ret;\n"
                               "}\n";

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

/* Launches for so long; the percentage of the time in which a kernel ran, or a negative one of the
 * driver's errors. */
static int flood(void *library, CUfunction spin, unsigned milliseconds) {
    cuLaunchKernel_fn *launch = DRIVER(library, cuLaunchKernel);
    cuStreamSynchronize_fn *finish = DRIVER(library, cuStreamSynchronize);
    uint32_t length_us = KERNEL_US;
    void *parameters[] = {&length_us};
    uint64_t launches = 0, begin = now_ns(), passed = 0;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && passed < milliseconds * NS_PER_S / 1000) {
        for (int i = 0; result == CUDA_SUCCESS && i < AT_ONCE; i++) {
            result = launch(spin, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
        }
        result = result == CUDA_SUCCESS ? finish(NULL) : result;
        launches += AT_ONCE;
        passed = now_ns() - begin;
    }
    uint64_t ran_ns = launches * KERNEL_US * 1000;
    return result == CUDA_SUCCESS ? (int)(ran_ns * 100 / passed) : -result;
}

/* Other processes of this container that launched on the card within the last second. */
static bool has_siblings(const uint8_t *uuid) {
    int fd = open(HOOK_LEDGER_PATH, O_RDONLY | O_CLOEXEC);
    static struct vcuda_ledger_file file;
    bool whole = fd >= 0 && pread(fd, &file, sizeof file, 0) == (ssize_t)sizeof file;
    if (fd >= 0) {
        close(fd);
    }
    unsigned card = 0;
    while (whole && card < VCUDA_MAX_CARDS &&
           memcmp(file.cards[card].uuid, uuid, VCUDA_UUID_BYTES) != 0) {
        card++;
    }
    for (unsigned slot = 0; whole && card < VCUDA_MAX_CARDS && slot < VCUDA_LEDGER_SLOTS; slot++) {
        uint64_t wanted = file.slots[slot].cards[card].last_want_ns;
        if (wanted != 0 && now_ns() - wanted < NS_PER_S &&
            file.slots[slot].pid != (uint32_t)getpid()) {
            return true;
        }
    }
    return false;
}

/* Other containers on the card, as the agent says. */
static bool has_neighbours(const uint8_t *uuid) {
    static struct shared_page page;
    bool valid = shared_page_refresh(&page, HOOK_ACTIVITY_PATH, VCUDA_ACTIVITY_MAGIC);
    const struct vcuda_activity_body *body = &page.body.activity;
    for (unsigned i = 0; valid && i < body->card_count && i < VCUDA_MAX_CARDS; i++) {
        if (memcmp(body->cards[i].uuid, uuid, VCUDA_UUID_BYTES) == 0) {
            return body->cards[i].tenants_wanting > 1;
        }
    }
    return false;
}

static const char *disturbance(const struct card *card) {
    if (has_siblings(card->uuid)) {
        return "other programs of this container are using the card";
    }
    return has_neighbours(card->uuid) ? "other containers are using the card" : NULL;
}

static void judge(struct report *report, struct card *card, int percent) {
    const struct vcuda_device_limit *limit = report_limit(report, card->uuid);
    bool elastic = limit->burst_percent > limit->compute_percent;
    unsigned allowed = elastic ? limit->burst_percent : limit->compute_percent;
    const char *disturbed = disturbance(card); /* another process may have come meanwhile */
    char uuid[UUID_CHARS];
    report_uuid(card->uuid, uuid);
    if (percent < 0) {
        report_attempt(card, "GPU time", NOT_TRIED, "error %d of the driver", -percent);
        report_problem(report, "%s: a launch failed with error %d", uuid, -percent);
    } else if (disturbed != NULL) {
        report_attempt(card, "GPU time", NOT_TRIED, "%s", disturbed);
    } else if ((unsigned)percent <= allowed + TOLERANCE_POINTS) {
        report_attempt(card, "GPU time", REFUSED, "after %d %% of %d ms, %u %% are allowed",
                       percent, WATCHED_MS, allowed);
    } else {
        report_attempt(card, "GPU time", GRANTED, "%d %% of %d ms, %u %% are allowed", percent,
                       WATCHED_MS, allowed);
        report_problem(report, "%s: kernels ran for %d %% of %d ms, %u %% are allowed", uuid,
                       percent, WATCHED_MS, allowed);
    }
}

void try_compute(struct report *report, void *library, struct card *card) {
    cuModuleLoadData_fn *load = DRIVER(library, cuModuleLoadData);
    cuModuleGetFunction_fn *get = DRIVER(library, cuModuleGetFunction);
    cuModuleUnload_fn *unload = DRIVER(library, cuModuleUnload);
    const char *disturbed = disturbance(card);
    CUmodule module = NULL;
    CUfunction spin = NULL;
    if (report_limit(report, card->uuid)->compute_percent >= 100) {
        report_attempt(card, "GPU time", NOT_TRIED, "all of it is allowed");
        return;
    }
    if (disturbed != NULL) {
        report_attempt(card, "GPU time", NOT_TRIED, "%s", disturbed);
        return;
    }
    if (load == NULL || get == NULL || unload == NULL) {
        report_attempt(card, "GPU time", NOT_TRIED, "the driver can't load a kernel");
        return;
    }
    CUresult result = load(&module, spin_ptx);
    if (result != CUDA_SUCCESS || get(&spin, module, "spin") != CUDA_SUCCESS) {
        report_attempt(card, "GPU time", NOT_TRIED, "no kernel could be loaded: error %d", result);
        return;
    }
    int percent = flood(library, spin, UNWATCHED_MS); /* lengths are learnt, savings spent */
    judge(report, card, percent < 0 ? percent : flood(library, spin, WATCHED_MS));
    unload(module);
}
