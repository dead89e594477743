/* Asks each family of device memory for more than is free: every one must refuse. */
#include <dlfcn.h>
#include <string.h>

#include "attempts.h"

#define MIB ((size_t)1 << 20)
/* A page of the card: what is refused with this much more than is free can't be a rounding. */
#define PAGE_BYTES (2 * MIB)

/* NO_ANSWER: the driver has no such function. */
enum { NO_ANSWER = -1 };

static CUresult try_alloc(void *library, CUdevice device, size_t bytes) {
    (void)device;
    CUdeviceptr pointer = 0;
    CUresult result = DRIVER(library, cuMemAlloc_v2)(&pointer, bytes);
    if (result == CUDA_SUCCESS) {
        DRIVER(library, cuMemFree_v2)(pointer);
    }
    return result;
}

static CUresult try_pitch(void *library, CUdevice device, size_t bytes) {
    (void)device;
    CUdeviceptr pointer = 0;
    size_t pitch;
    CUresult result =
        DRIVER(library, cuMemAllocPitch_v2)(&pointer, &pitch, MIB, bytes / MIB + 1, 16);
    if (result == CUDA_SUCCESS) {
        DRIVER(library, cuMemFree_v2)(pointer);
    }
    return result;
}

static CUresult try_managed(void *library, CUdevice device, size_t bytes) {
    (void)device;
    enum { ATTACH_GLOBAL = 1 };
    CUdeviceptr pointer = 0;
    CUresult result = DRIVER(library, cuMemAllocManaged)(&pointer, bytes, ATTACH_GLOBAL);
    if (result == CUDA_SUCCESS) {
        DRIVER(library, cuMemFree_v2)(pointer);
    }
    return result;
}

static CUresult try_pool(void *library, CUdevice device, size_t bytes) {
    (void)device;
    cuMemAllocAsync_fn *allocate = DRIVER(library, cuMemAllocAsync);
    CUdeviceptr pointer = 0;
    if (allocate == NULL) {
        return NO_ANSWER;
    }
    CUresult result = allocate(&pointer, bytes, NULL);
    if (result == CUDA_SUCCESS) {
        DRIVER(library, cuMemFreeAsync)(pointer, NULL);
        DRIVER(library, cuStreamSynchronize)(NULL);
    }
    return result;
}

static CUresult try_physical(void *library, CUdevice device, size_t bytes) {
    cuMemCreate_fn *create = DRIVER(library, cuMemCreate);
    const CUmemAllocationProp properties = {
        .type = 1, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle handle = 0;
    if (create == NULL) {
        return NO_ANSWER;
    }
    size_t pages = bytes / PAGE_BYTES + 1; /* its granularity */
    CUresult result = create(&handle, pages * PAGE_BYTES, &properties, 0);
    if (result == CUDA_SUCCESS) {
        DRIVER(library, cuMemRelease)(handle);
    }
    return result;
}

static CUresult try_array(void *library, CUdevice device, size_t bytes) {
    (void)device;
    enum { FLOAT = 0x20, CHANNELS = 4, WIDTH = 131072, MOST_ROWS = 65000 };
    size_t rows = bytes / (WIDTH * CHANNELS * sizeof(float)) + 1;
    const CUDA_ARRAY_DESCRIPTOR description = {
        .Width = WIDTH, .Height = rows, .Format = FLOAT, .NumChannels = CHANNELS};
    CUarray array = NULL;
    if (rows > MOST_ROWS) {
        return NO_ANSWER; /* no driver makes one as large */
    }
    CUresult result = DRIVER(library, cuArrayCreate_v2)(&array, &description);
    if (result == CUDA_SUCCESS) {
        DRIVER(library, cuArrayDestroy)(array);
    }
    return result;
}

static CUresult try_heap(void *library, CUdevice device, size_t bytes) {
    (void)device;
    size_t before = 0;
    DRIVER(library, cuCtxGetLimit)(&before, CU_LIMIT_MALLOC_HEAP_SIZE);
    cuCtxSetLimit_fn *set = DRIVER(library, cuCtxSetLimit);
    CUresult result = set(CU_LIMIT_MALLOC_HEAP_SIZE, before + bytes);
    if (result == CUDA_SUCCESS) {
        set(CU_LIMIT_MALLOC_HEAP_SIZE, before);
    }
    return result;
}

static const struct {
    const char *what;
    CUresult (*attempt)(void *library, CUdevice device, size_t bytes);
} families[] = {
    {"cuMemAlloc", try_alloc},          {"cuMemAllocPitch", try_pitch},
    {"cuMemAllocManaged", try_managed}, {"cuMemAllocAsync", try_pool},
    {"cuMemCreate", try_physical},      {"cuArrayCreate", try_array},
    {"cuCtxSetLimit heap", try_heap},
};

static void enter(struct report *report, struct card *card, const char *what, CUresult result,
                  size_t bytes, const char *why) {
    char uuid[UUID_CHARS];
    report_uuid(card->uuid, uuid);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        report_attempt(card, what, REFUSED, "%zu MiB, %s", bytes / MIB, why);
    } else if (result == CUDA_SUCCESS) {
        report_attempt(card, what, GRANTED, "%zu MiB, %s", bytes / MIB, why);
        report_problem(report, "%s: %s was granted %zu MiB, %s", uuid, what, bytes / MIB, why);
    } else if (result == NO_ANSWER || result == CUDA_ERROR_NOT_SUPPORTED) {
        report_attempt(card, what, NOT_TRIED, "this driver or card can't do it");
    } else {
        report_attempt(card, what, NOT_TRIED, "error %d of the driver", result);
        report_problem(report, "%s: %s of %zu MiB failed with error %d instead of %d", uuid, what,
                       bytes / MIB, result, CUDA_ERROR_OUT_OF_MEMORY);
    }
}

void try_memory(struct report *report, void *library, struct card *card, CUdevice device) {
    const struct vcuda_device_limit *limit = report_limit(report, card->uuid);
    size_t share = limit->memory_bytes + 1;
    enter(report, card, "cuMemAlloc", try_alloc(library, device, share), share,
          "a byte more than the share");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        size_t bytes = card->free_bytes + PAGE_BYTES;
        enter(report, card, families[i].what, families[i].attempt(library, device, bytes), bytes,
              "a page more than is free");
    }
}
