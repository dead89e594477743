/* Promises of the driver to CUDA programs: itself, devices, contexts and memory. */
#include <errno.h>
#include <string.h>

#include "checks.h"

#define CONTEXT_BYTES (64 * MIB)

static void calls_before_cuinit_are_refused(void) {
    int count;
    CUcontext context;
    size_t left, total;
    EXPECT_RC(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_RC(cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_RC(cuMemGetInfo_v2(&left, &total), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_RC(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    OK(cuInit(0));
    OK(cuInit(0));
}

static void version_and_errors_need_no_init(void) {
    int version;
    const char *text;
    OK(cuDriverGetVersion(&version));
    EXPECT(version == 12020);
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    EXPECT(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    EXPECT(strcmp(text, "out of memory") == 0);
    EXPECT_RC(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    EXPECT(text == NULL);
}

static void devices_have_the_described_facts(void) {
    int count, value, major, minor;
    size_t total;
    unsigned narrow;
    char name[96], bus[16];
    CUdevice device;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    EXPECT(count == 2);
    OK(cuDeviceGetName(name, sizeof name, 1));
    EXPECT(strcmp(name, "NVIDIA A100-SXM4-80GB") == 0);
    OK(cuDeviceTotalMem_v2(&total, 1));
    EXPECT(total == 85899345920UL);
    OK(cuDeviceTotalMem(&narrow, 1));
    EXPECT(narrow == UINT32_MAX);
    OK(cuDeviceGetAttribute(&value, 16, 1));
    EXPECT(value == 108);
    OK(cuDeviceComputeCapability(&major, &minor, 0));
    EXPECT(major == 8 && minor == 0);
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 1));
    OK(cuDeviceGetByPCIBusId(&device, bus));
    EXPECT(device == 1);
    EXPECT_RC(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_RC(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
}

static void work_needs_a_context(void) {
    CUdeviceptr address;
    CUstream stream;
    size_t left, total;
    OK(cuInit(0));
    EXPECT_RC(cuMemAlloc_v2(&address, 1), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_RC(cuMemGetInfo_v2(&left, &total), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_RC(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_RC(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_context_occupies_the_card_until_it_is_destroyed(void) {
    CUcontext first = new_context(0), second, current;
    size_t before = free_bytes();
    OK(cuCtxCreate_v2(&second, 0, 0));
    EXPECT(before - free_bytes() == CONTEXT_BYTES);
    OK(cuCtxDestroy_v2(second));
    OK(cuCtxGetCurrent(&current));
    EXPECT(current == first);
    EXPECT(free_bytes() == before);
    EXPECT_RC(cuCtxDestroy_v2(second), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_destroyed_context_takes_its_memory_along(void) {
    CUcontext other;
    CUdeviceptr address;
    new_context(0);
    size_t before = free_bytes();
    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuMemAlloc_v2(&address, 100 * MIB));
    OK(cuMemAlloc_v2(&address, 1000));
    OK(cuMemAllocManaged(&address, 3 * MIB, 1));
    kernel("anything");
    EXPECT(before - free_bytes() == CONTEXT_BYTES + 108 * MIB);
    OK(cuCtxDestroy_v2(other));
    EXPECT(free_bytes() == before);
}

static void primary_contexts_are_counted(void) {
    CUcontext first, second;
    unsigned flags;
    int active;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(!active);
    OK(cuDevicePrimaryCtxRetain(&first, 0));
    OK(cuDevicePrimaryCtxRetain(&second, 0));
    EXPECT(first == second);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuCtxSetCurrent(first));
    OK(cuCtxSynchronize());
    OK(cuDevicePrimaryCtxRelease_v2(0));
    EXPECT_RC(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_RC(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxRetain(&first, 0));
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(!active);
}

static void the_context_stack_is_the_threads_own(void) {
    CUcontext first = new_context(0), second = new_context(1), popped;
    CUdevice device;
    OK(cuCtxGetDevice(&device));
    EXPECT(device == 1);
    OK(cuCtxPopCurrent_v2(&popped));
    EXPECT(popped == second);
    OK(cuCtxPushCurrent_v2(first));
    OK(cuCtxSetCurrent(NULL));
    OK(cuCtxPopCurrent_v2(&popped));
    EXPECT(popped == first);
    EXPECT_RC(cuCtxPopCurrent_v2(&popped), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_RC(cuCtxPushCurrent_v2((CUcontext)&device), CUDA_ERROR_INVALID_CONTEXT);
}

static void memory_is_taken_in_granules(void) {
    CUdeviceptr small[2048], large;
    new_context(0);
    size_t before = free_bytes();
    for (int i = 0; i < 2048; i++)
        OK(cuMemAlloc_v2(&small[i], 1000)); /* two units each: 2048 of them fill one granule */
    EXPECT(before - free_bytes() == 2 * MIB);
    OK(cuMemAlloc_v2(&large, MIB + 1));
    EXPECT(before - free_bytes() == 4 * MIB);
    EXPECT(small[1] % 512 == 0 && large % 512 == 0);
    for (int i = 0; i < 2048; i++)
        OK(cuMemFree_v2(small[i]));
    EXPECT(before - free_bytes() == 2 * MIB);
    OK(cuMemFree_v2(large));
    EXPECT(free_bytes() == before);
}

static void what_does_not_fit_is_out_of_memory(void) {
    CUdeviceptr address = 7;
    new_context(0);
    size_t before = free_bytes();
    EXPECT_RC(cuMemAlloc_v2(&address, before + 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_RC(cuMemAlloc_v2(&address, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_RC(cuMemAllocAsync(&address, before + 1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_RC(cuMemAllocManaged(&address, before + 1, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(address == 7 && free_bytes() == before);
    OK(cuMemAlloc_v2(&address, before));
    EXPECT(free_bytes() == 0);
    CUcontext context;
    EXPECT_RC(cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

/* Ours: what a hook does to errno can be seen beside a driver that leaves it alone. */
static void calls_for_memory_leave_errno_alone(void) {
    CUdeviceptr address;
    new_context(0);
    errno = 33;
    size_t before = free_bytes();
    EXPECT_RC(cuMemAlloc_v2(&address, before + 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc_v2(&address, 1000));
    OK(cuMemFree_v2(address));
    EXPECT(errno == 33);
}

static void bad_requests_for_memory_are_invalid(void) {
    CUdeviceptr address;
    size_t pitch;
    new_context(0);
    EXPECT_RC(cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAlloc_v2(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAllocPitch_v2(&address, &pitch, 1, 1, 5), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemAllocManaged(&address, 1, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc_v2(&address, 4096));
    EXPECT_RC(cuMemFree_v2(address + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(address));
    EXPECT_RC(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(0));
    OK(cuMemGetInfo_v2(NULL, NULL));
}

static void pitched_rows_are_padded(void) {
    CUdeviceptr address, base;
    size_t pitch, bytes;
    new_context(0);
    OK(cuMemAllocPitch_v2(&address, &pitch, 1000, 3, 4));
    EXPECT(pitch == 1024);
    OK(cuMemGetAddressRange_v2(&base, &bytes, address + 2000));
    EXPECT(base == address && bytes == 3 * 1024);
}

static void the_first_interface_has_32_bit_addresses(void) {
    CUdeviceptr_v1 address;
    unsigned char text[4] = "abc", back[4];
    new_context(0);
    OK(cuMemAlloc(&address, 100));
    OK(cuMemcpyHtoD(address, text, 4));
    OK(cuMemcpyDtoH(back, address, 4));
    EXPECT(memcmp(text, back, 4) == 0);
    OK(cuMemFree(address));
}

static void contents_survive_copies_and_fills(void) {
    CUdeviceptr first, second;
    char text[32] = "what was written is read", back[32];
    unsigned words[4];
    new_context(0);
    OK(cuMemAlloc_v2(&first, 3 * MIB));
    OK(cuMemAlloc_v2(&second, 4096));
    OK(cuMemcpyHtoD_v2(first + 2 * MIB, text, sizeof text));
    OK(cuMemcpyDtoD_v2(second + 100, first + 2 * MIB, sizeof text));
    OK(cuMemcpyDtoHAsync_v2_ptsz(back, second + 100, sizeof back, NULL));
    EXPECT(memcmp(text, back, sizeof text) == 0);
    OK(cuMemsetD32_v2(second, 0x01020304, 4));
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)words, second, sizeof words));
    EXPECT(words[3] == 0x01020304);
    EXPECT_RC(cuMemcpyHtoD_v2(second + 4090, text, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemcpyDtoH_v2(back, 12345, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuMemsetD32_v2(second + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

static void a_fill_of_many_gigabytes_costs_no_memory(void) {
    CUdeviceptr address;
    unsigned char end[4] = {1, 1, 1, 1};
    new_context(0);
    OK(cuMemAlloc_v2(&address, 60000 * MIB));
    OK(cuMemsetD8_v2(address, 0xff, 60000 * MIB));
    OK(cuMemcpyDtoH_v2(end, address + 60000 * MIB - 4, 4));
    EXPECT(end[0] == 0); /* beyond what is kept */
    OK(cuMemcpyDtoH_v2(end, address, 4));
    EXPECT(end[3] == 0xff);
}

static void host_memory_takes_nothing_of_the_card(void) {
    void *page;
    static char own[8192];
    CUdeviceptr mapped;
    unsigned type;
    new_context(0);
    size_t before = free_bytes();
    OK(cuMemHostAlloc(&page, 5 * MIB, 0));
    OK(cuMemHostGetDevicePointer_v2(&mapped, page, 0));
    OK(cuPointerGetAttribute(&type, 2, mapped));
    EXPECT(type == 1 && free_bytes() == before);
    OK(cuMemFreeHost(page));
    OK(cuMemHostRegister_v2(own, sizeof own, 0));
    EXPECT_RC(cuMemHostRegister_v2(own, sizeof own, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(own));
    EXPECT_RC(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static const struct check checks[] = {
    CHECK(calls_before_cuinit_are_refused),
    CHECK(version_and_errors_need_no_init),
    CHECK(devices_have_the_described_facts),
    CHECK(work_needs_a_context),
    CHECK(a_context_occupies_the_card_until_it_is_destroyed),
    CHECK(a_destroyed_context_takes_its_memory_along),
    CHECK(primary_contexts_are_counted),
    CHECK(the_context_stack_is_the_threads_own),
    CHECK(memory_is_taken_in_granules),
    CHECK(what_does_not_fit_is_out_of_memory),
    CHECK(calls_for_memory_leave_errno_alone),
    CHECK(bad_requests_for_memory_are_invalid),
    CHECK(pitched_rows_are_padded),
    CHECK(the_first_interface_has_32_bit_addresses),
    CHECK(contents_survive_copies_and_fills),
    CHECK(a_fill_of_many_gigabytes_costs_no_memory),
    CHECK(host_memory_takes_nothing_of_the_card),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
