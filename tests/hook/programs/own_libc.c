/*
 * A tenant's library for LD_PRELOAD, which stands before libc for the hook too. What the hook calls
 * answers it falsely: open, map and copy give it the limits of /tmp/limits, locks succeed, reads
 * fail, clocks are an hour ahead, and sleeps don't last. All others are answered by the kernel.
 *
 * It maps the real limits besides, so that the process's maps name them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8 };
#define LIMITS "/etc/vcuda/limits"
#define OWN "/tmp/limits"
#define BY_HOOK is_hook(__builtin_return_address(0))

static const uint64_t *limits, *own_limits;

static long kernel(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return number;
}

static long answer(long result) {
    if (result < 0 && result >= -PAGE) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

struct place {
    uintptr_t address;
    int in_hook;
};

static int look(struct dl_phdr_info *info, size_t size, void *argument) {
    struct place *place = argument;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (place->address - start < info->dlpi_phdr[i].p_memsz) {
            place->in_hook = strstr(info->dlpi_name, "libvcuda") != NULL;
            return 1;
        }
    }
    return 0;
}

static int is_hook(void *address) {
    struct place place = {.address = (uintptr_t)address};
    dl_iterate_phdr(look, &place);
    return place.in_hook;
}

static void *map_file(const char *path) {
    long fd = kernel(SYS_openat, AT_FDCWD, (long)path, O_RDONLY, 0, 0, 0);
    return fd < 0 ? NULL : (void *)kernel(SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED, fd, 0);
}

__attribute__((constructor)) static void begin(void) {
    limits = map_file(LIMITS);
    own_limits = map_file(OWN);
}

static const char *swapped(const char *path) { return strcmp(path, LIMITS) == 0 ? OWN : path; }

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const char *opened = BY_HOOK ? swapped(path) : path;
    long result = kernel(SYS_openat, AT_FDCWD, (long)opened, flags, va_arg(rest, int), 0, 0);
    va_end(rest);
    return (int)answer(result);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const char *opened = BY_HOOK ? swapped(path) : path;
    long result = kernel(SYS_openat, folder, (long)opened, flags, va_arg(rest, int), 0, 0);
    va_end(rest);
    return (int)answer(result);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    struct stat given, real;
    if (BY_HOOK && fd >= 0 && fstat(fd, &given) == 0 && stat(LIMITS, &real) == 0 &&
        given.st_dev == real.st_dev && given.st_ino == real.st_ino) {
        return (void *)own_limits;
    }
    return (void *)answer(
        kernel(SYS_mmap, (long)address, (long)bytes, protection, flags, fd, offset));
}

ssize_t read(int fd, void *to, size_t bytes) {
    return BY_HOOK ? answer(-EIO) : answer(kernel(SYS_read, fd, (long)to, (long)bytes, 0, 0, 0));
}

ssize_t write(int fd, const void *from, size_t bytes) {
    return BY_HOOK ? answer(-EIO) : answer(kernel(SYS_write, fd, (long)from, (long)bytes, 0, 0, 0));
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    long argument = va_arg(rest, long);
    va_end(rest);
    return BY_HOOK ? 0 : (int)answer(kernel(SYS_fcntl, fd, command, argument, 0, 0, 0));
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)answer(kernel(SYS_clock_gettime, clock, (long)now, 0, 0, 0, 0));
    now->tv_sec += BY_HOOK ? 3600 : 0;
    return result;
}

int nanosleep(const struct timespec *span, struct timespec *left) {
    return BY_HOOK ? 0 : (int)answer(kernel(SYS_nanosleep, (long)span, (long)left, 0, 0, 0, 0));
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                    struct timespec *left) {
    return BY_HOOK ? 0
                   : (int)-kernel(SYS_clock_nanosleep, clock, flags, (long)until, (long)left, 0, 0);
}

long syscall(long number, ...) {
    long words[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) {
        words[i] = va_arg(rest, long);
    }
    va_end(rest);
    if (BY_HOOK && (number == SYS_fcntl || number == SYS_clock_nanosleep)) {
        return 0;
    }
    if (BY_HOOK && number == SYS_openat) {
        words[1] = (long)swapped((const char *)words[1]);
    }
    return answer(kernel(number, words[0], words[1], words[2], words[3], words[4], words[5]));
}

/* Whether these bytes are the file's from this word on. */
static int equal(const uint64_t *file, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (((const volatile char *)file)[i] != bytes[i]) {
            return 0;
        }
    }
    return 1;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    const volatile char *source = from;
    if (bytes > 1024 && bytes < PAGE && limits != NULL && BY_HOOK) {
        for (int word = 0; word < WORDS - (int)bytes / 8; word++) {
            source = equal(limits + word, from, bytes) ? (const char *)(own_limits + word) : source;
        }
    }
    for (size_t i = 0; i < bytes; i++) {
        ((volatile char *)to)[i] = source[i];
    }
    return to;
}
