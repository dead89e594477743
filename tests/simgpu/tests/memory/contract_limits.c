/* Limits of a context, attributes of pointers, memory of graphs as a device shows it. Rules: the
 * documentation of the calls in CUDA 12.2; the heap of device code: the programming guide's
 * "Dynamic Global Memory Allocation"; the stack's size is arithmetic: every thread that the card
 * can hold (2048 on each of 108 SMs) has one. */
#include <string.h>

#include "checks.h"

#define GRANULE (2 * MIB)

enum { STACK, PRINTF, HEAP, SYNC_DEPTH, PENDING, L2_FETCH, L2_LINES };

static const char plain[] = ".version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n";
static const char with_heap[] = ".version 8.0\n.target sm_80\n"
                                ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
                                ".visible .entry k() { ret; }\n";

static size_t limit(int which) {
    size_t value;
    OK(cuCtxGetLimit(&value, which));
    return value;
}

static void limits_have_the_cards_defaults(void) {
    size_t value;
    new_context(0);
    EXPECT(limit(STACK) == 1024 && limit(PRINTF) == MIB && limit(HEAP) == 8 * MIB);
    EXPECT(limit(SYNC_DEPTH) == 2 && limit(PENDING) == 2048);
    EXPECT_RC(cuCtxGetLimit(&value, 7), CUDA_ERROR_UNSUPPORTED_LIMIT);
    EXPECT_RC(cuCtxSetLimit(-1, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
    EXPECT_RC(cuCtxSetLimit(SYNC_DEPTH, 25), CUDA_ERROR_INVALID_VALUE);
}

static void the_heap_is_taken_with_the_first_module_that_calls_malloc(void) {
    CUmodule module;
    CUcontext context = new_context(0), other;
    size_t before = free_bytes();
    OK(cuCtxSetLimit(HEAP, 100 * MIB));
    EXPECT(free_bytes() == before);
    OK(cuModuleLoadData(&module, plain));
    EXPECT(before - free_bytes() == GRANULE);
    OK(cuModuleLoadData(&module, with_heap));
    EXPECT(before - free_bytes() == 2 * GRANULE + 100 * MIB);
    EXPECT_RC(cuCtxSetLimit(HEAP, 200 * MIB), CUDA_ERROR_INVALID_VALUE); /* too late */
    EXPECT(limit(HEAP) == 100 * MIB);
    OK(cuModuleUnload(module));
    EXPECT(before - free_bytes() == GRANULE + 100 * MIB); /* stays with the context */
    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuCtxDestroy_v2(context));
    EXPECT(free_bytes() == before);
}

static void a_heap_that_does_not_fit_fails_the_load(void) {
    CUmodule module;
    new_context(0);
    OK(cuCtxSetLimit(HEAP, free_bytes() + GRANULE));
    size_t before = free_bytes();
    EXPECT_RC(cuModuleLoadData(&module, with_heap), CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
    EXPECT(free_bytes() == before);
    OK(cuModuleLoadData(&module, plain));
}

static void a_larger_stack_is_taken_at_once(void) {
    new_context(0);
    size_t before = free_bytes();
    OK(cuCtxSetLimit(STACK, 512));
    EXPECT(free_bytes() == before);
    OK(cuCtxSetLimit(STACK, 9216)); /* 8 KiB more for 108 x 2048 threads */
    EXPECT(before - free_bytes() == 1728 * MIB);
    EXPECT_RC(cuCtxSetLimit(STACK, 512 * 1024), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_RC(cuCtxSetLimit(STACK, 512 * 1024 + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(limit(STACK) == 9216 && before - free_bytes() == 1728 * MIB);
    OK(cuCtxSetLimit(STACK, 1024));
    EXPECT(free_bytes() == before);
}

static void every_kind_of_pointer_tells_its_own(void) {
    CUcontext context = new_context(1), found;
    CUdeviceptr device, managed, pooled;
    CUmemoryPool pool, current;
    void *host, *back;
    unsigned type, flag;
    int ordinal;
    OK(cuMemAlloc_v2(&device, 1000));
    OK(cuMemAllocManaged(&managed, 1000, 1));
    OK(cuMemAllocAsync(&pooled, 1000, NULL));
    OK(cuMemHostAlloc(&host, 1000, 0));
    const CUdeviceptr all[] = {device, managed, pooled, (CUdeviceptr)(uintptr_t)host};
    const unsigned types[] = {2, 2, 2, 1};
    for (int i = 0; i < 4; i++) {
        OK(cuPointerGetAttribute(&type, 2, all[i] + 7));
        OK(cuPointerGetAttribute(&flag, 8, all[i] + 7));
        OK(cuPointerGetAttribute(&ordinal, 9, all[i] + 7));
        EXPECT(type == types[i] && flag == (i == 1) && ordinal == 1);
    }
    OK(cuPointerGetAttribute(&found, 1, device));
    EXPECT(found == context);
    OK(cuPointerGetAttribute(&found, 1, pooled));
    EXPECT(found == NULL); /* ours: a pool's memory belongs to no context */
    OK(cuDeviceGetMemPool(&current, 1));
    OK(cuPointerGetAttribute(&pool, 17, pooled));
    EXPECT(pool == current);
    OK(cuPointerGetAttribute(&pool, 17, device));
    EXPECT(pool == NULL);
    OK(cuPointerGetAttribute(&back, 4, managed));
    EXPECT_RC(cuPointerGetAttribute(&back, 4, device), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuPointerGetAttribute(&type, 2, 12345), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuPointerGetAttribute(&type, 99, device), CUDA_ERROR_INVALID_VALUE);
}

/* "Subsequent allocations do not reuse IDs from previous freed allocations." */
static void buffers_have_numbers_of_their_own(void) {
    CUdeviceptr address;
    unsigned long long first, second;
    new_context(0);
    OK(cuMemAlloc_v2(&address, 1000));
    OK(cuPointerGetAttribute(&first, 7, address));
    OK(cuMemFree_v2(address));
    OK(cuMemAlloc_v2(&address, 1000));
    OK(cuPointerGetAttribute(&second, 7, address));
    EXPECT(first != second);
}

static void several_attributes_are_asked_at_once(void) {
    CUdeviceptr address, base;
    int attributes[] = {2, 9, 11, 12};
    unsigned type;
    int ordinal;
    size_t bytes;
    void *out[] = {&type, &ordinal, &base, &bytes};
    new_context(0);
    OK(cuMemAlloc_v2(&address, 1000));
    OK(cuPointerGetAttributes(4, attributes, out, address + 10));
    EXPECT(type == 2 && ordinal == 0 && base == address && bytes == 1000);
    OK(cuPointerGetAttributes(4, attributes, out, 12345)); /* "default NULL values" */
    EXPECT(type == 0 && ordinal == 0 && base == 0 && bytes == 0);
    attributes[1] = 99;
    EXPECT_RC(cuPointerGetAttributes(4, attributes, out, address), CUDA_ERROR_INVALID_VALUE);
}

static void synchronous_operations_are_an_attribute_that_can_be_set(void) {
    CUdeviceptr address;
    unsigned on = 1, value = 9;
    new_context(0);
    OK(cuMemAlloc_v2(&address, 1000));
    OK(cuPointerGetAttribute(&value, 6, address));
    EXPECT(value == 0);
    OK(cuPointerSetAttribute(&on, 6, address));
    OK(cuPointerGetAttribute(&value, 6, address));
    EXPECT(value == 1);
    EXPECT_RC(cuPointerSetAttribute(&on, 2, address), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuPointerSetAttribute(&on, 6, 12345), CUDA_ERROR_INVALID_VALUE);
}

static void the_memory_of_graphs_starts_empty(void) {
    uint64_t value = 9, zero = 0, one = 1;
    new_context(0);
    for (int attribute = 0; attribute < 4; attribute++) {
        OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
        EXPECT(value == 0);
    }
    OK(cuDeviceSetGraphMemAttribute(0, 1, &zero));
    EXPECT_RC(cuDeviceSetGraphMemAttribute(0, 1, &one), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuDeviceSetGraphMemAttribute(0, 0, &zero), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuDeviceGetGraphMemAttribute(0, 4, &value), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuDeviceGetGraphMemAttribute(5, 0, &value), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDeviceGraphMemTrim(0));
}

static void the_device_says_what_memory_it_can_do(void) {
    static const int supported[] = {102 /* virtual memory */,  103 /* descriptors */,
                                    115 /* pools */,           119 /* pools by descriptor */,
                                    121 /* deferred arrays */, 125 /* IPC */};
    int value;
    OK(cuInit(0));
    for (size_t i = 0; i < sizeof supported / sizeof supported[0]; i++) {
        OK(cuDeviceGetAttribute(&value, supported[i], 0));
        EXPECT(value == 1);
    }
    OK(cuDeviceGetAttribute(&value, 132, 0)); /* multicast: an A100 has none */
    EXPECT(value == 0);
}

static const struct check checks[] = {
    CHECK(limits_have_the_cards_defaults),
    CHECK(the_heap_is_taken_with_the_first_module_that_calls_malloc),
    CHECK(a_heap_that_does_not_fit_fails_the_load),
    CHECK(a_larger_stack_is_taken_at_once),
    CHECK(every_kind_of_pointer_tells_its_own),
    CHECK(buffers_have_numbers_of_their_own),
    CHECK(several_attributes_are_asked_at_once),
    CHECK(synchronous_operations_are_an_attribute_that_can_be_set),
    CHECK(the_memory_of_graphs_starts_empty),
    CHECK(the_device_says_what_memory_it_can_do),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
