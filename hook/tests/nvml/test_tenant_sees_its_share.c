/* cuMemGetInfo and NVML agree: the share, less contexts, allocations and the agent's unaccounted
 * memory. */
#include "asking_nvml.h"

static void expect_cuda(uint64_t available, uint64_t total) {
    size_t shown_available = 0, shown_total = 0;
    CHECK(CUDA(cuMemGetInfo_v2)(&shown_available, NULL) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemGetInfo_v2)(NULL, &shown_total) == CUDA_SUCCESS);
    CHECK(shown_available == available && shown_total == total);
}

static void expect_nvml(uint64_t available, uint64_t total) {
    nvmlMemory_t memory;
    nvmlMemory_v2_t memory2 = {.version = 0x2000028};
    nvmlDevice_t device = nvml_card(0);
    CHECK(GATED(nvmlDeviceGetMemoryInfo)(device, &memory) == NVML_SUCCESS);
    CHECK(GATED(nvmlDeviceGetMemoryInfo_v2)(device, &memory2) == NVML_SUCCESS);
    CHECK(memory.total == total && memory.free == available);
    CHECK(memory.used == total - available);
    CHECK(memory2.version == 0x2000028 && memory2.reserved == 0);
    CHECK(memory2.total == total && memory2.free == available);
    CHECK(memory2.used == memory.used);
    memory2.version = 1;
    CHECK(GATED(nvmlDeviceGetMemoryInfo_v2)(device, &memory2) ==
          NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

int main(void) {
    files_make();
    expect_nvml(SHARE_BYTES, SHARE_BYTES);
    context_make(0);
    expect_cuda(SHARE_BYTES - CONTEXT_BYTES, SHARE_BYTES);
    allocate(100 * MIB);
    activity_publish(30 * MIB);
    uint64_t rest = SHARE_BYTES - CONTEXT_BYTES - 130 * MIB;
    expect_cuda(rest, SHARE_BYTES);
    expect_nvml(rest, SHARE_BYTES);
    CHECK(try_allocate(rest) == CUDA_SUCCESS);
    CHECK(try_allocate(rest + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    activity_publish(4096 * MIB);
    expect_cuda(0, SHARE_BYTES);
    expect_nvml(0, SHARE_BYTES);

    struct vcuda_limits_body body = limits_default();
    body.devices[0].memory_bytes = 2 * FAKE_CARD_BYTES; /* more than the share */
    limits_publish(&body);
    activity_publish(0);
    expect_cuda(FAKE_CARD_BYTES - 100 * MIB, FAKE_CARD_BYTES);
    return 0;
}
