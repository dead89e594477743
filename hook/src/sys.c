#include "sys.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of Linux 3.15; the libc that we build for is older. */
#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#endif

/* linux/fcntl.h's struct flock on 64-bit machines; libc's depends on feature macros. */
struct byte_lock {
    int16_t type, whence;
    int64_t start, length;
    int32_t pid;
};

int sys_open(const char *path, int flags) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

void sys_close(int fd) { syscall(SYS_close, fd); }

static bool set_lock(int fd, size_t offset, int16_t type) {
    struct byte_lock lock = {
        .type = type, .whence = SEEK_SET, .start = (int64_t)offset, .length = 1};
    return syscall(SYS_fcntl, fd, F_OFD_SETLK, &lock) == 0;
}

bool sys_lock_byte(int fd, size_t offset) { return set_lock(fd, offset, F_WRLCK); }

void sys_unlock_byte(int fd, size_t offset) { set_lock(fd, offset, F_UNLCK); }

uint32_t sys_pid(void) { return (uint32_t)syscall(SYS_getpid); }

bool sys_page_is_backed(const void *address) {
    /* A shared futex is found by its page: the kernel looks, and answers EFAULT where we'd get
     * SIGBUS. Nobody waits on these words, so nobody wakes. */
    return syscall(SYS_futex, address, FUTEX_WAKE, 0, NULL, NULL, 0) >= 0;
}

/* 0 free, 1 taken, 2 taken and somebody waits (Drepper, "Futexes Are Tricky", mutex 2). */
void lock_take(struct lock *lock) {
    uint32_t expected = 0;
    if (atomic_compare_exchange_strong(&lock->word, &expected, 1)) {
        return;
    }
    while (atomic_exchange(&lock->word, 2) != 0) {
        syscall(SYS_futex, &lock->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, NULL, NULL, 0);
    }
}

void lock_release(struct lock *lock) {
    if (atomic_exchange(&lock->word, 0) == 2) {
        syscall(SYS_futex, &lock->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
    }
}
