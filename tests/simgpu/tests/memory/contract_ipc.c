/* Legacy IPC. Rules: the documentation of the calls in CUDA 12.2; errors of opening and closing: as
 * HIP's tests of hipIpcOpenMemHandle and hipIpcCloseMemHandle expect of NVIDIA's driver, and UCX's
 * report of "invalid device context" in the same process (openucx/ucx#11603). */
#include "checks.h"
#include "two_processes.h"

#define GRANULE (2 * MIB)
#define CONTEXT (64 * MIB)

static void export_by_ipc(int socket) {
    CUipcMemHandle handle;
    new_context(0);
    filled(100, "a neighbour's"); /* in the same granule, below */
    CUdeviceptr address = filled(1000, "written by the first");
    size_t before = free_bytes();
    OK(cuIpcGetMemHandle(&handle, address));
    EXPECT(free_bytes() == before); /* no copy, no second charge */
    expect_text(address, "written by the first");
    tell(socket, &handle, sizeof handle);
    await_step(socket);
    expect_text(address, "and by the second");
    OK(cuMemFree_v2(address));
    signal_step(socket);
    await_step(socket);
}

static void import_by_ipc(int socket) {
    CUipcMemHandle handle;
    CUdeviceptr address, again;
    hear(socket, &handle, sizeof handle);
    new_context(0);
    size_t before = free_bytes();
    OK(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_LAZY_PEER_ACCESS));
    EXPECT(free_bytes() == before);
    expect_text(address, "written by the first");
    OK(cuMemcpyHtoD_v2(address, "and by the second", 18));
    OK(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_LAZY_PEER_ACCESS));
    EXPECT(again == address);
    OK(cuIpcCloseMemHandle(address));
    EXPECT_RC(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE); /* has a call of its own */
    signal_step(socket);
    await_step(socket);
    expect_text(address, "and by the second"); /* freed there, open here */
    OK(cuIpcCloseMemHandle(address));
    EXPECT_RC(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
    signal_step(socket);
}

static void an_allocation_is_opened_by_ipc(void) { both(export_by_ipc, import_by_ipc, false); }

static void export_and_die(int socket) {
    CUipcMemHandle handle;
    new_context(0);
    OK(cuIpcGetMemHandle(&handle, filled(5 * GRANULE, "from the dead")));
    tell(socket, &handle, sizeof handle);
    pause_until_killed(about_to_pause);
}

static void find_it_gone(int socket) {
    CUipcMemHandle handle;
    CUdeviceptr address;
    hear(socket, &handle, sizeof handle);
    new_context(0);
    size_t left, total;
    OK(cuMemGetInfo_v2(&left, &total));
    EXPECT(total - left == CONTEXT);
    EXPECT_RC(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_LAZY_PEER_ACCESS),
              CUDA_ERROR_INVALID_HANDLE);
}

static void a_handle_keeps_nothing_alive(void) { both(export_and_die, find_it_gone, true); }

static void the_same_process_cannot_open_its_own(void) {
    CUipcMemHandle handle;
    CUdeviceptr address;
    new_context(0);
    CUdeviceptr own = filled(1000, "mine");
    OK(cuIpcGetMemHandle(&handle, own));
    EXPECT_RC(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_LAZY_PEER_ACCESS),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_RC(cuIpcCloseMemHandle(own), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuIpcOpenMemHandle_v2(&address, handle, 0), CUDA_ERROR_INVALID_VALUE);
    memset(&handle, 1, sizeof handle);
    EXPECT_RC(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_LAZY_PEER_ACCESS),
              CUDA_ERROR_INVALID_VALUE);
}

static void only_plain_allocations_have_ipc_handles(void) {
    CUipcMemHandle handle;
    CUdeviceptr pooled, managed;
    unsigned capable;
    new_context(0);
    CUdeviceptr plain = filled(1000, "plain");
    OK(cuMemAllocAsync(&pooled, 1000, NULL));
    OK(cuMemAllocManaged(&managed, 1000, 1));
    OK(cuPointerGetAttribute(&capable, 10, plain));
    EXPECT(capable == 1);
    OK(cuPointerGetAttribute(&capable, 10, pooled));
    EXPECT(capable == 0);
    EXPECT_RC(cuIpcGetMemHandle(&handle, pooled), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuIpcGetMemHandle(&handle, managed), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RC(cuIpcGetMemHandle(&handle, plain + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(plain));
    EXPECT_RC(cuIpcGetMemHandle(&handle, plain), CUDA_ERROR_INVALID_VALUE);
}

static void export_and_wait(int socket) {
    CUipcMemHandle handle;
    new_context(0);
    OK(cuIpcGetMemHandle(&handle, filled(GRANULE, "once")));
    tell(socket, &handle, sizeof handle);
    await_step(socket);
}

/* "May only be opened by one CUcontext per CUdevice per other process." */
static void open_twice(int socket) {
    CUipcMemHandle handle;
    CUdeviceptr address, again;
    hear(socket, &handle, sizeof handle);
    CUcontext first = new_context(0);
    OK(cuIpcOpenMemHandle(&address, handle, CU_IPC_LAZY_PEER_ACCESS));
    EXPECT_RC(cuIpcOpenMemHandle(&again, handle, CU_IPC_LAZY_PEER_ACCESS),
              CUDA_ERROR_ALREADY_MAPPED); /* counting came with CUDA 11 */
    new_context(0);
    EXPECT_RC(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_LAZY_PEER_ACCESS),
              CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxDestroy_v2(first)); /* takes along what it had opened */
    EXPECT_RC(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
    OK(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_LAZY_PEER_ACCESS));
    expect_text(again, "once");
    signal_step(socket);
}

static void one_context_of_a_process_opens_a_handle(void) {
    both(export_and_wait, open_twice, false);
}

static const struct check checks[] = {
    CHECK(an_allocation_is_opened_by_ipc),          CHECK(a_handle_keeps_nothing_alive),
    CHECK(the_same_process_cannot_open_its_own),    CHECK(only_plain_allocations_have_ipc_handles),
    CHECK(one_context_of_a_process_opens_a_handle),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
