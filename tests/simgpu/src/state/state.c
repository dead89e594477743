/* Mapping and locking of the shared state, and the cards that a process may use. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    struct sim_state *state;
    int fd;
} mapping = {PTHREAD_MUTEX_INITIALIZER, NULL, -1};

const char *sim_state_path(void) {
    const char *path = getenv("SIMGPU_STATE");
    return path && *path ? path : SIM_DEFAULT_STATE;
}

const char *sim_dev_dir(void) {
    const char *path = getenv("SIMGPU_DEV");
    return path && *path ? path : "/dev";
}

uint64_t sim_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static struct sim_state *map_file(int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return NULL;
    if ((size_t)info.st_size != sizeof(struct sim_state)) {
        errno = EPROTO;
        return NULL;
    }
    void *at = mmap(NULL, sizeof(struct sim_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    struct sim_state *state = at;
    if (__atomic_load_n(&state->magic, __ATOMIC_ACQUIRE) != SIM_MAGIC ||
        state->layout != SIM_LAYOUT || state->size != sizeof(struct sim_state)) {
        munmap(at, sizeof(struct sim_state));
        errno = EPROTO;
        return NULL;
    }
    return state;
}

struct sim_state *sim_state_map(void) {
    pthread_mutex_lock(&mapping.lock);
    if (!mapping.state) {
        int fd = open(sim_state_path(), O_RDWR | O_CLOEXEC);
        if (fd >= 0) {
            mapping.state = map_file(fd);
            if (mapping.state)
                mapping.fd = fd;
            else
                close(fd); /* a library without the mapping holds no lock */
        }
    }
    struct sim_state *state = mapping.state;
    pthread_mutex_unlock(&mapping.lock);
    return state;
}

int sim_state_fd(void) { return mapping.fd; }

void sim_lock(struct sim_state *state) {
    if (pthread_mutex_lock(&state->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&state->lock); /* nothing to repair: see state.h */
}

void sim_unlock(struct sim_state *state) { pthread_mutex_unlock(&state->lock); }

bool sim_driver_mismatch(const struct sim_state *state) {
    return strcmp(state->driver, SIMGPU_DRIVER) != 0;
}

bool sim_node_granted(const char *node) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", sim_dev_dir(), node);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return true;
    }
    return errno == ENXIO;
}

bool sim_card_granted(const struct sim_card *card) {
    char node[32];
    snprintf(node, sizeof node, "nvidia%u", card->minor);
    return sim_node_granted(node);
}
