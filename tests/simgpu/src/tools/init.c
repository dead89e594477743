#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "describe.h"
#include "state/clients.h"
#include "state/objects.h"
#include "state/windows.h"

static bool complain(const char *what) {
    fprintf(stderr, "simgpu: %s: %s\n", what, strerror(errno));
    return false;
}

static void read_boot_id(char *boot_id, size_t size) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && fgets(boot_id, (int)size, file))
        boot_id[strcspn(boot_id, "\n")] = '\0';
    if (file)
        fclose(file);
}

static uint64_t realtime_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* The part of a card that the description decides. */
static bool same_card(const struct sim_card *a, const struct sim_card *b) {
    return a->minor == b->minor && a->memory_bytes == b->memory_bytes && a->sms == b->sms &&
           a->numa == b->numa && a->capability_major == b->capability_major &&
           a->capability_minor == b->capability_minor && strcmp(a->uuid, b->uuid) == 0 &&
           strcmp(a->model, b->model) == 0 && strcmp(a->bus, b->bus) == 0;
}

static bool same_machine(const struct sim_state *a, const struct sim_state *b) {
    bool same = a->magic == SIM_MAGIC && a->layout == b->layout && a->size == b->size &&
                strcmp(a->boot_id, b->boot_id) == 0 && strcmp(a->driver, b->driver) == 0 &&
                a->cuda_version == b->cuda_version && a->card_count == b->card_count &&
                memcmp(a->links, b->links, sizeof a->links) == 0 &&
                memcmp(&a->timing, &b->timing, sizeof a->timing) == 0;
    for (uint32_t card = 0; same && card < a->card_count; card++)
        same = same_card(&a->cards[card], &b->cards[card]);
    return same;
}

static void make_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* The whole is written in place, magic last: readers that map it meanwhile see no state, those
 * that have mapped it before see the new cards. */
static void renew(struct sim_state *state, const struct sim_state *wanted) {
    __atomic_store_n(&state->magic, 0, __ATOMIC_RELEASE);
    size_t body = offsetof(struct sim_state, layout);
    memcpy((char *)state + body, (const char *)wanted + body, sizeof *state - body);
    make_lock(&state->lock);
    __atomic_store_n(&state->magic, SIM_MAGIC, __ATOMIC_RELEASE);
}

static bool describe(struct sim_state *wanted) {
    const char *path = getenv("SIMGPU_CARDS");
    path = path && *path ? path : SIM_DEFAULT_CARDS;
    char error[256];
    if (!describe_cards(path, wanted, error, sizeof error)) {
        fprintf(stderr, "simgpu: %s: %s\n", path, error);
        return false;
    }
    wanted->layout = SIM_LAYOUT;
    wanted->size = sizeof *wanted;
    read_boot_id(wanted->boot_id, sizeof wanted->boot_id);
    wanted->epoch_ns = realtime_ns() - sim_now_ns();
    for (uint32_t card = 0; card < wanted->card_count; card++) {
        wanted->cards[card].loaded_ns = wanted->cards[card].clock_ns = sim_now_ns();
        wanted->cards[card].window = wanted->cards[card].clock_ns / sim_window_ns(wanted);
        wanted->cards[card].resident = -1;
    }
    return true;
}

/* 0777 and 0666 with any umask: containers run as any user. */
static int open_state(void) {
    char folder[512];
    snprintf(folder, sizeof folder, "%s", sim_state_path());
    char *parent = dirname(folder);
    if (mkdir(parent, 0777) == 0)
        chmod(parent, 0777);
    int fd = open(sim_state_path(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0 && (fchmod(fd, 0666) != 0 && errno != EPERM)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* A module that is in use can't be unloaded: the files of another version change nothing yet. */
static bool stays_loaded(const struct sim_state *wanted) {
    struct sim_state *loaded = sim_state_map();
    if (!loaded || strcmp(loaded->boot_id, wanted->boot_id) != 0 ||
        strcmp(loaded->driver, wanted->driver) == 0 || !sim_clients_any(loaded))
        return false;
    fprintf(stderr, "simgpu: driver %s is in use and stays loaded instead of %s\n", loaded->driver,
            wanted->driver);
    return true;
}

static bool write_state(const struct sim_state *wanted, bool force) {
    int fd = open_state();
    if (fd < 0 || ftruncate(fd, sizeof *wanted) != 0) {
        if (fd >= 0)
            close(fd);
        return complain(sim_state_path());
    }
    void *at = mmap(NULL, sizeof *wanted, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd); /* this tool holds no client's lock */
    if (at == MAP_FAILED)
        return complain(sim_state_path());
    if (force || !same_machine(at, wanted)) {
        sim_objects_clear();
        renew(at, wanted);
    }
    munmap(at, sizeof *wanted);
    return true;
}

bool init_state(bool force) {
    struct sim_state *wanted = calloc(1, sizeof *wanted);
    if (!wanted)
        return complain("state");
    bool ok = describe(wanted) && ((!force && stays_loaded(wanted)) || write_state(wanted, force));
    free(wanted);
    return ok;
}
