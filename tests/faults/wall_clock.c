/*
 * Sets a program's wall clock apart from the machine's; to be preloaded.
 *
 * The file that GPUSTACK_WALL_CLOCK names holds the difference, nanoseconds as a 64-bit integer in
 * this machine's byte order. It is mapped, so the clock can be set while the program runs, and a
 * child has its parent's. Monotonic clocks are not touched: they show no setting of the clock
 * (clock_gettime(2)).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)

static const _Atomic int64_t *difference_ns;

/* A test whose clock can't be set would pass without having tested anything. */
__attribute__((constructor)) static void open_difference(void) {
    const char *path = getenv("GPUSTACK_WALL_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *page =
        file < 0 ? MAP_FAILED : mmap(NULL, sizeof *difference_ns, PROT_READ, MAP_SHARED, file, 0);

    if (page == MAP_FAILED) {
        perror("GPUSTACK_WALL_CLOCK");
        _exit(1);
    }
    close(file);
    difference_ns = page;
}

static int64_t wall_ns(clockid_t clock) {
    struct timespec real;

    syscall(SYS_clock_gettime, clock, &real);
    return real.tv_sec * SECOND_NS + real.tv_nsec + (difference_ns == NULL ? 0 : *difference_ns);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, now);
    int64_t wall = wall_ns(clock);
    now->tv_sec = wall / SECOND_NS;
    now->tv_nsec = wall % SECOND_NS;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int64_t wall = wall_ns(CLOCK_REALTIME);

    (void)zone; /* obsolete, and no program sets it */
    now->tv_sec = wall / SECOND_NS;
    now->tv_usec = wall % SECOND_NS / 1000;
    return 0;
}

time_t time(time_t *now) {
    time_t wall = wall_ns(CLOCK_REALTIME) / SECOND_NS;

    if (now != NULL)
        *now = wall;
    return wall;
}
