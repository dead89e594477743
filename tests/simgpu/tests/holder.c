/* A process that holds memory of one family until its input ends:
 *
 *   holder DEVICE FAMILY            takes HOLD_BYTES in that way; prints "ready"
 *   holder DEVICE export            prints the IPC handle of an allocation, in hex
 *   holder DEVICE open HANDLE       opens it; prints "ready"
 *   holder DEVICE send SOCKET       gives everyone who connects there a descriptor of one
 * allocation holder DEVICE receive SOCKET    imports it; a line of input closes the descriptor
 *   holder DEVICE churn             takes and gives back in ways that can be shared, until it is
 *                                   killed; prints "ready" after the first round */
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"
#include "two_processes.h"

#define HOLD_BYTES (64 * MIB)

static void hold_array(void) {
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR d = {4096, 4096, 0, 0x20, 1, 0};
    OK(cuArray3DCreate_v2(&array, &d));
}

static void hold_mipmap(void) {
    CUmipmappedArray mipmap;
    CUDA_ARRAY3D_DESCRIPTOR d = {4096, 4096, 0, 0x20, 1, 0};
    OK(cuMipmappedArrayCreate(&mipmap, &d, 1));
}

static CUmemGenericAllocationHandle create(int handle_types) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_PINNED,
                                      .requestedHandleTypes = handle_types,
                                      .location = {CU_MEM_LOCATION_DEVICE, 0}};
    OK(cuMemCreate(&handle, HOLD_BYTES, &properties, 0));
    return handle;
}

static void hold_handle(void) { create(0); }

static void hold_shareable(void) { create(CU_MEM_HANDLE_POSIX_FD); }

static void hold_descriptor(void) {
    int fd;
    CUmemGenericAllocationHandle handle = create(CU_MEM_HANDLE_POSIX_FD);
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_POSIX_FD, 0));
    OK(cuMemRelease(handle));
}

static void hold_mapping(void) {
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle = create(0);
    OK(cuMemAddressReserve(&address, HOLD_BYTES, 0, 0, 0));
    OK(cuMemMap(address, HOLD_BYTES, 0, handle, 0));
    OK(cuMemRelease(handle));
}

static void hold_pool(void) {
    CUdeviceptr address;
    OK(cuMemAllocAsync(&address, HOLD_BYTES, NULL));
}

static void hold_reserve(void) {
    CUdeviceptr address;
    CUmemoryPool pool;
    uint64_t threshold = UINT64_MAX;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, 4, &threshold));
    OK(cuMemAllocAsync(&address, HOLD_BYTES, NULL));
    OK(cuMemFreeAsync(address, NULL));
    OK(cuCtxSynchronize());
}

static void hold_external(void) {
    CUexternalMemory external;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {.type = CU_EXTERNAL_OPAQUE_FD,
                                                    .size = HOLD_BYTES};
    CUmemGenericAllocationHandle handle = create(CU_MEM_HANDLE_POSIX_FD);
    OK(cuMemExportToShareableHandle(&description.handle.fd, handle, CU_MEM_HANDLE_POSIX_FD, 0));
    OK(cuImportExternalMemory(&external, &description));
    OK(cuMemRelease(handle));
}

static void hold_heap(void) {
    CUmodule module;
    OK(cuCtxSetLimit(2, HOLD_BYTES - 2 * MIB)); /* the module takes 2 MiB */
    OK(cuModuleLoadData(&module, ".version 8.0\n.extern .func (.param .b64 r) malloc ();\n"));
}

static void hold_allocation(void) {
    CUdeviceptr address;
    OK(cuMemAlloc_v2(&address, HOLD_BYTES));
}

static const struct {
    const char *name;
    void (*hold)(void);
} families[] = {
    {"allocation", hold_allocation}, {"array", hold_array},         {"mipmap", hold_mipmap},
    {"handle", hold_handle},         {"shareable", hold_shareable}, {"descriptor", hold_descriptor},
    {"mapping", hold_mapping},       {"pool", hold_pool},           {"reserve", hold_reserve},
    {"external", hold_external},     {"heap", hold_heap},
};

static void export(void) {
    CUdeviceptr address;
    CUipcMemHandle handle;
    OK(cuMemAlloc_v2(&address, HOLD_BYTES));
    OK(cuIpcGetMemHandle(&handle, address));
    for (size_t i = 0; i < sizeof handle; i++)
        printf("%02x", (unsigned char)handle.reserved[i]);
    puts("");
}

static void open_handle(const char *text) {
    CUdeviceptr address;
    CUipcMemHandle handle;
    for (size_t i = 0; i < sizeof handle; i++) {
        unsigned byte;
        EXPECT(sscanf(text + 2 * i, "%2x", &byte) == 1);
        handle.reserved[i] = (char)byte;
    }
    OK(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_LAZY_PEER_ACCESS));
    puts("ready");
}

static struct sockaddr_un named(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

static void say(const char *line) {
    puts(line);
    fflush(stdout);
}

static void send_to_all(const char *path) {
    int fd, listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = named(path);
    OK(cuMemExportToShareableHandle(&fd, create(CU_MEM_HANDLE_POSIX_FD), CU_MEM_HANDLE_POSIX_FD,
                                    0));
    EXPECT(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    EXPECT(listen(listener, 8) == 0);
    say("made");
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        send_fd(connection, fd);
        close(connection);
    }
}

static void receive(const char *path) {
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = named(path);
    CUmemGenericAllocationHandle handle;
    EXPECT(connect(connection, (struct sockaddr *)&address, sizeof address) == 0);
    int fd = receive_fd(connection);
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_POSIX_FD));
    say("ready");
    if (getchar() != EOF) {
        close(fd);
        say("closed");
    }
}

static void churn(void) {
    for (int round = 0;; round++) {
        int fd;
        CUdeviceptr address;
        CUipcMemHandle handle;
        CUmemGenericAllocationHandle first = create(CU_MEM_HANDLE_POSIX_FD), second;
        OK(cuMemExportToShareableHandle(&fd, first, CU_MEM_HANDLE_POSIX_FD, 0));
        OK(cuMemImportFromShareableHandle(&second, (void *)(intptr_t)fd, CU_MEM_HANDLE_POSIX_FD));
        OK(cuMemRelease(first));
        close(fd);
        OK(cuMemAlloc_v2(&address, 1000));
        OK(cuIpcGetMemHandle(&handle, address));
        OK(cuMemRelease(second));
        OK(cuMemFree_v2(address));
        if (round == 0) {
            puts("ready");
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv) {
    EXPECT(argc >= 3);
    new_context(atoi(argv[1]));
    if (strcmp(argv[2], "export") == 0)
        export();
    else if (strcmp(argv[2], "open") == 0)
        open_handle(argv[3]);
    else if (strcmp(argv[2], "send") == 0)
        send_to_all(argv[3]);
    else if (strcmp(argv[2], "receive") == 0)
        receive(argv[3]);
    else if (strcmp(argv[2], "churn") == 0)
        churn();
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].name, argv[2]) == 0) {
            families[i].hold();
            puts("ready");
        }
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
