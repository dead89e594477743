/* Physical memory that was exported lives on by its descriptor: it stays charged until that is
 * closed, which is found out when memory is asked for or runs short. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

#define BYTES (8 * MIB)
#define ADDRESS UINT64_C(0x7000000000)

static CUmemGenericAllocationHandle made(size_t bytes) {
    CUmemAllocationProp properties = {.type = 1,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle;
    CHECK(CUDA(cuMemCreate)(&handle, bytes, &properties, 0) == CUDA_SUCCESS);
    return handle;
}

static void let_go(CUmemGenericAllocationHandle handle) {
    CHECK(CUDA(cuMemRelease)(handle) == CUDA_SUCCESS);
}

static int export_of(CUmemGenericAllocationHandle handle) {
    int fd;
    CHECK(CUDA(cuMemExportToShareableHandle)(&fd, handle, 1, 0) == CUDA_SUCCESS);
    return fd;
}

/* Beside the context. */
static void expect(uint64_t bytes) { CHECK(ledger_sum_bytes() == CONTEXT_BYTES + bytes); }

static void expect_after_a_look(uint64_t bytes) {
    size_t available, total;
    CHECK(CUDA(cuMemGetInfo_v2)(&available, &total) == CUDA_SUCCESS);
    CHECK(available == SHARE_BYTES - CONTEXT_BYTES - bytes);
    expect(bytes);
}

static void expect_kept_until_closed(void) {
    CUmemGenericAllocationHandle handle = made(BYTES);
    int fd = export_of(handle);
    let_go(handle);
    expect_after_a_look(BYTES);
    CHECK(close(fd) == 0);
    expect(BYTES); /* no call has looked yet */
    expect_after_a_look(0);

    fd = export_of(handle = made(BYTES));
    CHECK(CUDA(cuMemMap)(ADDRESS, BYTES, 0, handle, 0) == CUDA_SUCCESS);
    let_go(handle);
    CHECK(CUDA(cuMemUnmap)(ADDRESS, BYTES) == CUDA_SUCCESS);
    expect_after_a_look(BYTES);
    CHECK(close(fd) == 0);
    CUmemGenericAllocationHandle all = made(SHARE_BYTES - CONTEXT_BYTES); /* runs short */
    let_go(all);
    expect(0);
}

static void expect_given_to_an_import(void) {
    CUmemGenericAllocationHandle handle = made(BYTES);
    int fd = export_of(handle);
    let_go(handle);
    for (int i = 0; i < 3; i++) {
        CHECK(CUDA(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd, 1) ==
              CUDA_SUCCESS);
        expect_after_a_look(BYTES);
        if (i == 2) {
            CHECK(close(fd) == 0);
        }
        let_go(handle);
    }
    expect(0);
}

/* The number of a closed descriptor has no meaning. */
static void expect_numbers_to_be_told_apart(void) {
    CUmemGenericAllocationHandle first = made(BYTES);
    int fd = export_of(first);
    CHECK(close(fd) == 0);
    CHECK(open("limits", O_RDONLY | O_CLOEXEC) == fd);
    let_go(first);
    expect(0);
    CHECK(close(fd) == 0);

    CHECK(export_of(first = made(BYTES)) == fd && close(fd) == 0);
    CUmemGenericAllocationHandle second = made(BYTES);
    CHECK(export_of(second) == fd);
    let_go(first);
    expect(BYTES);
    let_go(second);
    expect_after_a_look(BYTES);
    CHECK(close(fd) == 0);
    CUmemGenericAllocationHandle third = made(BYTES);
    CHECK(export_of(third) == fd); /* before a call has looked */
    expect(BYTES);
    CHECK(close(fd) == 0);
    let_go(third);
    expect(0);
}

/* Another process's, by the number of one of ours. */
static void expect_foreign_ones_to_be_free(void) {
    CUmemGenericAllocationHandle handle = made(BYTES), foreign = 99;
    int fd = export_of(handle);
    let_go(handle);
    CHECK(close(fd) == 0);
    CHECK(memfd_create("sent to us", MFD_CLOEXEC) == fd);
    CHECK(write(fd, &foreign, sizeof foreign) == (ssize_t)sizeof foreign);
    expect(BYTES);
    CHECK(CUDA(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd, 1) == CUDA_SUCCESS);
    CHECK(handle == foreign);
    expect(0);
    CHECK(close(fd) == 0);
}

int main(void) {
    files_make();
    context_make(0);
    expect(0);
    expect_kept_until_closed();
    expect_given_to_an_import();
    expect_numbers_to_be_told_apart();
    expect_foreign_ones_to_be_free();
    return 0;
}
