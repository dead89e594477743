/*
 * The cost of a preloaded library to a program that never uses it: one program runs over and over,
 * in turns with each of several libraries preloaded, all on one core.
 *
 *     exec_cost ROUNDS PROGRAM LIBRARY...      "-" is no library
 *
 * Prints a line for each library: median and 99th percentile of the time from spawn to end (µs),
 * the median of the extra time of a round over the first library, and the private dirty memory
 * that the library's mapping costs a process (KiB).
 */
#include <inttypes.h>
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_LIBRARIES = 8 };

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void environment_of(const char *library, char *buffer, size_t size) {
    if (strcmp(library, "-") == 0) {
        buffer[0] = '\0';
    } else {
        snprintf(buffer, size, "LD_PRELOAD=%s", library);
    }
}

static int64_t run(const char *program, const char *library) {
    char preload[4096];
    environment_of(library, preload, sizeof preload);
    char *arguments[] = {(char *)program, NULL};
    char *environment[] = {preload[0] != '\0' ? preload : NULL, NULL};
    pid_t child;
    int status;
    int64_t begin = now_ns();
    if (posix_spawn(&child, program, NULL, NULL, arguments, environment) != 0) {
        fail(program);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        fail("the program did not end well");
    }
    return now_ns() - begin;
}

static int by_size(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* Prints the private dirty memory of this process, which has the library preloaded. */
static int print_dirty(const char *library) {
    char line[4096];
    long total = 0, value;
    int ours = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (maps == NULL) {
        fail("/proc/self/smaps");
    }
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
            ours = strstr(line, library) != NULL;
        } else if (ours && sscanf(line, "Private_Dirty: %ld kB", &value) == 1) {
            total += value;
        }
    }
    fclose(maps);
    printf("%ld\n", total);
    return 0;
}

static long dirty_kib(const char *self, const char *library) {
    char command[8192], answer[64] = "";
    if (strcmp(library, "-") == 0) {
        return 0;
    }
    snprintf(command, sizeof command, "LD_PRELOAD='%s' '%s' --dirty '%s'", library, self, library);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL || fgets(answer, sizeof answer, pipe) == NULL || pclose(pipe) != 0) {
        fail(command);
    }
    return strtol(answer, NULL, 10);
}

static void pin(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        fail("sched_setaffinity");
    }
}

int main(int count, char **values) {
    if (count == 3 && strcmp(values[1], "--dirty") == 0) {
        return print_dirty(values[2]);
    }
    int libraries = count - 3;
    long rounds = count > 1 ? strtol(values[1], NULL, 10) : 0;
    if (libraries < 1 || libraries > MOST_LIBRARIES || rounds < 1) {
        fprintf(stderr, "usage: %s ROUNDS PROGRAM LIBRARY...\n", values[0]);
        return 2;
    }
    int64_t *times[MOST_LIBRARIES], *more[MOST_LIBRARIES];
    for (int i = 0; i < libraries; i++) {
        times[i] = calloc((size_t)rounds, sizeof(int64_t));
        more[i] = calloc((size_t)rounds, sizeof(int64_t));
        if (times[i] == NULL || more[i] == NULL) {
            fail("memory");
        }
    }
    pin();
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < libraries; i++) {
            times[i][round] = run(values[2], values[3 + i]);
            more[i][round] = times[i][round] - times[0][round];
        }
    }
    for (int i = 0; i < libraries; i++) {
        qsort(times[i], (size_t)rounds, sizeof(int64_t), by_size);
        qsort(more[i], (size_t)rounds, sizeof(int64_t), by_size);
        printf("%.1f %.1f %.1f %ld\n", (double)times[i][rounds / 2] / 1e3,
               (double)times[i][rounds * 99 / 100] / 1e3, (double)more[i][rounds / 2] / 1e3,
               dirty_kib(values[0], values[3 + i]));
    }
    return 0;
}
