/*
 * Prints the cost of a charge and its refund under contention, in nanoseconds: median, 99th
 * percentile, and the pairs of all threads in a microsecond. Each of THREADS threads of each of
 * PROCESSES processes charges and refunds for MILLISECONDS, as the gates do it: the process's lock,
 * a look at limits and activity, the ledger. A measurement and no test: make bench runs it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launching.h"
#include "memory/card_limits.h"

enum { SAMPLES = 4096, UNITS = 16 };

struct samples {
    uint64_t count; /* pairs; of those beyond SAMPLES each replaces another one */
    uint32_t ns[SAMPLES];
};

static unsigned long threads, processes, milliseconds;
static struct shared {
    _Atomic uint64_t ready, begin_ns;
    struct samples samples[];
} *shared;
static struct samples *mine; /* this process's first thread's */

static void charge_and_refund(const CUuuid *uuid) {
    struct card_limits limits;
    struct process *process = card_limits_enter(uuid, true, &limits);
    CHECK(process != NULL && card_limits_charge(process, &limits, UNITS) == CUDA_SUCCESS);
    process_leave(process);
    process = process_enter();
    card_limits_return(process, limits.card, UNITS);
    process_leave(process);
}

static void *measure(void *argument) {
    struct samples *samples = argument;
    CUuuid uuid = {.bytes = {[15] = FAKE_FIRST_UUID_BYTE}};
    charge_and_refund(&uuid);
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->begin_ns) == 0) {
        usleep(100);
    }
    uint64_t end = atomic_load(&shared->begin_ns) + milliseconds * NS_PER_MS, now = wall_ns();
    while (now < end) {
        charge_and_refund(&uuid);
        uint64_t then = wall_ns();
        samples->ns[samples->count++ % SAMPLES] = (uint32_t)(then - now);
        now = then;
    }
    return NULL;
}

static void work(void) {
    pthread_t started[1024];
    for (unsigned long i = 0; i < threads; i++) {
        CHECK(pthread_create(&started[i], NULL, measure, mine + i) == 0);
    }
    for (unsigned long i = 0; i < threads; i++) {
        CHECK(pthread_join(started[i], NULL) == 0);
    }
}

static int compare(const void *one, const void *other) {
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static void print(void) {
    size_t all = 0;
    uint64_t pairs = 0;
    uint32_t *ns = malloc(threads * processes * sizeof shared->samples[0].ns);
    for (unsigned long i = 0; i < threads * processes; i++) {
        const struct samples *samples = &shared->samples[i];
        size_t count = samples->count < SAMPLES ? samples->count : SAMPLES;
        memcpy(ns + all, samples->ns, count * sizeof *ns);
        all += count;
        pairs += samples->count;
    }
    CHECK(all > 0);
    qsort(ns, all, sizeof *ns, compare);
    double microseconds = (double)milliseconds * 1000;
    printf("%u %u %.2f\n", ns[all / 2], ns[all * 99 / 100], (double)pairs / microseconds);
}

int main(int count, char **arguments) {
    CHECK(count == 4);
    processes = strtoul(arguments[1], NULL, 10);
    threads = strtoul(arguments[2], NULL, 10);
    milliseconds = strtoul(arguments[3], NULL, 10);
    CHECK(threads > 0 && threads <= 1024 && processes > 0 && processes <= VCUDA_LEDGER_SLOTS);
    files_make();
    size_t bytes = sizeof *shared + threads * processes * sizeof shared->samples[0];
    shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t children[VCUDA_LEDGER_SLOTS];
    for (unsigned long i = 0; i < processes; i++) {
        mine = &shared->samples[i * threads];
        children[i] = start_child(work);
    }
    while (atomic_load(&shared->ready) < threads * processes) {
        usleep(100);
    }
    atomic_store(&shared->begin_ns, wall_ns());
    for (unsigned long i = 0; i < processes; i++) {
        CHECK(wait_child(children[i]) == 0);
    }
    print();
    return 0;
}
