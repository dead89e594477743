#include "shared/sys.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of Linux 3.15; the libc that we build for is older. */
#ifndef F_OFD_SETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

/* linux/fcntl.h's struct flock on 64-bit machines; libc's depends on feature macros. */
struct byte_lock {
    int16_t type, whence;
    int64_t start, length;
    int32_t pid;
};

int sys_open(const char *path, int flags) {
    flags |= O_CLOEXEC | O_NONBLOCK | O_NOCTTY; /* a pipe in a file's place doesn't block */
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

void sys_close(int fd) { syscall(SYS_close, fd); }

int sys_duplicate(int fd, int least) { return (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least); }

bool sys_stat(int fd, struct stat *found) { return syscall(SYS_fstat, fd, found) == 0; }

static bool set_lock(int fd, enum lock_owner owner, size_t offset, int16_t type) {
    struct byte_lock lock = {
        .type = type, .whence = SEEK_SET, .start = (int64_t)offset, .length = 1};
    int command = owner == LOCK_OF_FILE ? F_OFD_SETLK : F_SETLK;
    return syscall(SYS_fcntl, fd, command, &lock) == 0;
}

bool sys_lock_byte(int fd, size_t offset, enum lock_owner owner) {
    return set_lock(fd, owner, offset, F_WRLCK);
}

bool sys_share_byte(int fd, size_t offset, enum lock_owner owner) {
    return set_lock(fd, owner, offset, F_RDLCK);
}

void sys_unlock_byte(int fd, size_t offset, enum lock_owner owner) {
    set_lock(fd, owner, offset, F_UNLCK);
}

/* The lock that keeps `fd` from an OFD lock on the byte; of type F_UNLCK where none does. */
static struct byte_lock find_lock(int fd, size_t offset) {
    struct byte_lock lock = {
        .type = F_WRLCK, .whence = SEEK_SET, .start = (int64_t)offset, .length = 1};
    if (syscall(SYS_fcntl, fd, F_OFD_GETLK, &lock) != 0) {
        lock.type = F_UNLCK;
    }
    return lock;
}

bool sys_byte_is_locked(int fd, size_t offset) { return find_lock(fd, offset).type != F_UNLCK; }

bool sys_byte_is_ours(int fd, size_t offset) {
    struct byte_lock lock = find_lock(fd, offset);
    /* The kernel names a living holder, translated to our PID namespace: not a PID to distrust. */
    return lock.type != F_UNLCK && (uint32_t)lock.pid == sys_pid();
}

uint32_t sys_pid(void) { return (uint32_t)syscall(SYS_getpid); }

bool sys_page_is_backed(const void *address) {
    /* A shared futex is found by its page: the kernel looks, and answers EFAULT where we'd get
     * SIGBUS. These words have no waiters, so the call wakes none. */
    return syscall(SYS_futex, address, FUTEX_WAKE, 0, NULL, NULL, 0) >= 0;
}

/* 0 free, 1 taken, 2 taken and a thread waits (Drepper, "Futexes Are Tricky", mutex 2). */
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
