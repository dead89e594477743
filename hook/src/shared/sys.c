#include "shared/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>

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

#ifdef __x86_64__
long sys_call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return number;
}
#elif defined __aarch64__
long sys_call(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error "how does this processor call the kernel?"
#endif

int sys_open(const char *path, int flags) {
    flags |= O_CLOEXEC | O_NONBLOCK | O_NOCTTY; /* a pipe in a file's place doesn't block */
    return (int)sys_call(SYS_openat, AT_FDCWD, (long)path, flags, 0, 0, 0);
}

long sys_read(int fd, void *bytes, size_t most) {
    return sys_call(SYS_read, fd, (long)bytes, (long)most, 0, 0, 0);
}

void sys_close(int fd) { sys_call(SYS_close, fd, 0, 0, 0, 0, 0); }

static long control(int fd, int command, long argument) {
    return sys_call(SYS_fcntl, fd, command, argument, 0, 0, 0);
}

int sys_duplicate(int fd, int least) { return (int)control(fd, F_DUPFD_CLOEXEC, least); }

bool sys_stat(int fd, struct stat *found) {
    return sys_call(SYS_fstat, fd, (long)found, 0, 0, 0, 0) == 0;
}

void *sys_map(size_t bytes, int protection, int flags, int fd) {
    long mapping = sys_call(SYS_mmap, 0, (long)bytes, protection, flags, fd, 0);
    return mapping < 0 ? NULL : (void *)mapping;
}

void sys_unmap(void *mapping, size_t bytes) {
    sys_call(SYS_munmap, (long)mapping, (long)bytes, 0, 0, 0, 0);
}

bool sys_advise(void *mapping, size_t bytes, int advice) {
    return sys_call(SYS_madvise, (long)mapping, (long)bytes, advice, 0, 0, 0) == 0;
}

static bool set_lock(int fd, enum lock_owner owner, size_t offset, int16_t type) {
    struct byte_lock lock = {
        .type = type, .whence = SEEK_SET, .start = (int64_t)offset, .length = 1};
    int command = owner == LOCK_OF_FILE ? F_OFD_SETLK : F_SETLK;
    return control(fd, command, (long)&lock) == 0;
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
    if (control(fd, F_OFD_GETLK, (long)&lock) != 0) {
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

uint32_t sys_pid(void) { return (uint32_t)sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0); }

static long futex(long address, int operation, long value) {
    return sys_call(SYS_futex, address, operation, value, 0, 0, 0);
}

bool sys_page_is_backed(const void *address) {
    /* A shared futex is found by its page: the kernel looks, and answers EFAULT where we'd get
     * SIGBUS. These words have no waiters, so the call wakes none. */
    return futex((long)address, FUTEX_WAKE, 0) >= 0;
}

void sys_wait(_Atomic uint32_t *word, uint32_t value) {
    futex((long)word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value);
}

void sys_wake_all(_Atomic uint32_t *word) {
    futex((long)word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX);
}

/* 0 free, 1 taken, 2 taken and a thread waits (Drepper, "Futexes Are Tricky", mutex 2). */
void lock_take(struct lock *lock) {
    uint32_t expected = 0;
    if (atomic_compare_exchange_strong(&lock->word, &expected, 1)) {
        return;
    }
    while (atomic_exchange(&lock->word, 2) != 0) {
        sys_wait(&lock->word, 2);
    }
}

void lock_release(struct lock *lock) {
    if (atomic_exchange(&lock->word, 0) == 2) {
        futex((long)&lock->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
    }
}
