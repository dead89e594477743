/*
 * Where a slot hangs on a descriptor (overlayfs), a program may close it, put a file of its own
 * there, or drop the lock by reading the ledger. The hook takes a slot again and charges what the
 * process holds; it neither uses nor closes the program's file. Elsewhere there is no descriptor.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "support.h"

enum { OVERLAYFS = 0x794c7630, MORE_THAN_ANY = 4096 };
#define HELD (CONTEXT_BYTES + 300 * MIB)

static int holding[2], done[2];

static bool is_ledger(int fd) {
    char link[32], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    const char *name = strrchr(path, '/');
    return name != NULL && strcmp(name, "/ledger") == 0;
}

static unsigned ledgers_open(int *last) {
    unsigned count = 0;
    for (int fd = 0; fd < MORE_THAN_ANY; fd++) {
        if (is_ledger(fd)) {
            *last = fd;
            count++;
        }
    }
    return count;
}

static unsigned ledgers_expected(void) {
    struct statfs file_system;
    CHECK(statfs(".", &file_system) == 0);
    return file_system.f_type == OVERLAYFS;
}

static bool is_pipe(int fd) {
    return fd == holding[0] || fd == holding[1] || fd == done[0] || fd == done[1];
}

static void close_all(void) {
    for (int fd = 3; fd < MORE_THAN_ANY; fd++) {
        if (!is_pipe(fd)) {
            close(fd);
        }
    }
}

static void expect_kept_by_call(void) {
    int fd;
    CHECK(try_allocate(MIB) == CUDA_SUCCESS);
    CHECK(ledgers_open(&fd) == ledgers_expected());
}

static void expect_charged(uint64_t bytes) {
    size_t available, total;
    CHECK(CUDA(cuMemGetInfo_v2)(&available, &total) == CUDA_SUCCESS); /* the dead give back */
    CHECK(ledger_sum_bytes() == bytes && ledger_slots_bytes() == bytes);
}

static void expect_refusal(void) {
    context_make(0);
    CHECK(try_allocate(SHARE_BYTES - HELD) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(try_allocate(SHARE_BYTES - HELD - CONTEXT_BYTES) == CUDA_SUCCESS);
    int fd;
    CHECK(ledgers_open(&fd) == ledgers_expected()); /* what fork gave it is closed */
}

static void lose_in_every_way(void) {
    context_make(0);
    CUdeviceptr pointer = allocate(300 * MIB);
    CHECK(in_child(expect_refusal) == 0);
    close_all();
    expect_kept_by_call();
    CHECK(in_child(expect_refusal) == 0);

    int fd = -1, own = open("own", O_RDWR | O_CREAT, 0666);
    CHECK(ledgers_open(&fd) == ledgers_expected());
    if (fd >= 0) {
        CHECK(dup2(own, fd) == fd);
        expect_kept_by_call();
        CHECK(write(fd, "mine", 4) == 4 && lseek(own, 0, SEEK_CUR) >= 4);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int other = open("own", O_RDWR);
        CHECK(fcntl(other, F_OFD_SETLK, &lock) == 0); /* no lock of ours on it */
        close(other);
    }
    CHECK(in_child(expect_refusal) == 0);

    expect_charged(HELD); /* opens and closes the ledger */
    expect_kept_by_call();
    CHECK(in_child(expect_refusal) == 0);
    release(pointer);
    expect_charged(CONTEXT_BYTES);
}

static void take_what_seems_free(void) {
    context_make(0);
    CUdeviceptr pointer;
    CUresult result = CUDA(cuMemAlloc_v2)(&pointer, 300 * MIB);
    CHECK(result == (ledgers_expected() == 1 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY));
    tell(holding);
    await(done);
}

/* Between the loss and the next call nothing says that the process lives, and others may be given
 * what it holds. Then both are charged, and neither is given more. */
static void lose_while_another_takes(void) {
    context_make(0);
    CUdeviceptr pointer = allocate(300 * MIB);
    close_all();
    pid_t child = start_child(take_what_seems_free);
    await(holding);
    if (ledgers_expected() == 1) {
        CHECK(try_allocate(2 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
        expect_charged(2 * HELD);
    }
    tell(done);
    CHECK(wait_child(child) == 0);
    CHECK(try_allocate(SHARE_BYTES - HELD) == CUDA_SUCCESS);
    CHECK(try_allocate(SHARE_BYTES - HELD + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    release(pointer);
    expect_charged(CONTEXT_BYTES);
}

/* The descriptor goes where the limit allows. */
static void have_few_descriptors(void) {
    struct rlimit few = {.rlim_cur = 20, .rlim_max = 20};
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    lose_in_every_way();
}

int main(void) {
    files_make();
    CHECK(pipe(holding) == 0 && pipe(done) == 0);
    CHECK(in_child(lose_in_every_way) == 0);
    CHECK(in_child(lose_while_another_takes) == 0);
    CHECK(in_child(have_few_descriptors) == 0);
    return 0;
}
