#include "shared/clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_clock(clockid_t clock) {
    struct timespec time = {.tv_sec = 0};
    clock_gettime(clock, &time); /* without a system call, by the vDSO */
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

uint64_t clock_now(void) { return read_clock(CLOCK_MONOTONIC); }

uint64_t clock_now_coarse(void) { return read_clock(CLOCK_MONOTONIC_COARSE); }

uint64_t clock_wall_us(void) { return read_clock(CLOCK_REALTIME) / NS_PER_US; }

void clock_sleep_until(uint64_t ns) {
    struct timespec until = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}
