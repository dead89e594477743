/*
 * System calls as gates may make them. libc's functions aren't called: a library of LD_PRELOAD may
 * stand before them and show the hook other files, and open, close and fcntl are cancellation
 * points, which a gate must not become. None of these touches errno, which is the caller's: what
 * calls the driver or the loader keeps it by ERRNO_KEPT.
 */
#ifndef HOOK_SYS_H
#define HOOK_SYS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Restores errno at the end of the block that it stands in. */
#define ERRNO_KEPT __attribute__((cleanup(sys_restore_errno), unused)) int saved_errno = errno

static inline void sys_restore_errno(const int *saved) { errno = *saved; }

/* The kernel's own answer: an error is a negative number. */
long sys_call(long number, long a, long b, long c, long d, long e, long f);
int sys_open(const char *path, int flags);
/* The bytes read, or a negative number. */
long sys_read(int fd, void *bytes, size_t most);
void sys_close(int fd);
/* The lowest free number from `least` on, closed by exec; negative where there is none. */
int sys_duplicate(int fd, int least);
bool sys_stat(int fd, struct stat *found);
/* At any address; NULL where that isn't possible. */
void *sys_map(size_t bytes, int protection, int flags, int fd);
void sys_unmap(void *mapping, size_t bytes);
bool sys_advise(void *mapping, size_t bytes, int advice);
/* The owner of a lock: the open file's (OFD), or the process's (POSIX). */
enum lock_owner { LOCK_OF_FILE, LOCK_OF_PROCESS };
/* Takes a write lock on one byte, or makes it of this owner's read lock, which stays where that
 * fails; and takes a read lock. False where that isn't possible at once. */
bool sys_lock_byte(int fd, size_t offset, enum lock_owner owner);
bool sys_share_byte(int fd, size_t offset, enum lock_owner owner);
void sys_unlock_byte(int fd, size_t offset, enum lock_owner owner);
/* Whether another open file, or any process, has locked the byte; and whether this process has, by
 * LOCK_OF_PROCESS. False where `fd` is no open file. */
bool sys_byte_is_locked(int fd, size_t offset);
bool sys_byte_is_ours(int fd, size_t offset);
uint32_t sys_pid(void);
/* Whether a page of a shared mapping still has a file behind it: false where access would raise
 * SIGBUS because the file was truncated. */
bool sys_page_is_backed(const void *address);

/* Sleeps while a word of this process has the value, or not at all; and ends such sleeps. */
void sys_wait(_Atomic uint32_t *word, uint32_t value);
void sys_wake_all(_Atomic uint32_t *word);

/* A lock between the threads of one process, all zero when free; it lies in memory that fork
 * wipes, so that a child never inherits one that is held. */
struct lock {
    _Atomic uint32_t word;
};
void lock_take(struct lock *lock);
void lock_release(struct lock *lock);

#endif
