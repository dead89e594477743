#define _GNU_SOURCE /* OFD locks */
#include "objects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clients.h"

#define FILE_MARK ".memory-"

static void path_of(char *path, size_t size, uint64_t id) {
    snprintf(path, size, "%s" FILE_MARK "%llu", sim_state_path(), (unsigned long long)id);
}

static struct sim_object *find(struct sim_state *state, uint64_t id) {
    for (uint32_t slot = 0; id && slot < state->object_slots; slot++)
        if (state->objects[slot].id == id)
            return &state->objects[slot];
    return NULL;
}

static void take(struct sim_object *object, int client) {
    if (!object->taken[client])
        object->taken[client] = ++object->holds;
}

/* The client that holds it and has begun to last; -1: none holds it. */
static int last_holder(const struct sim_object *object) {
    int last = -1;
    for (int client = 0; client < SIM_CLIENTS_MAX; client++)
        if (object->taken[client] && (last < 0 || object->taken[client] > object->taken[last]))
            last = client;
    return last;
}

/* The first byte, read-locked by each exported descriptor. */
static struct flock first_byte(short type) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
}

int sim_object_open(uint64_t id, bool exported) {
    char path[512];
    path_of(path, sizeof path, id);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct flock byte = first_byte(F_RDLCK);
    if (fd >= 0 && exported && fcntl(fd, F_OFD_SETLK, &byte) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool is_exported(uint64_t id) {
    int fd = sim_object_open(id, false);
    struct flock byte = first_byte(F_WRLCK);
    if (fd < 0)
        return errno != ENOENT; /* can't tell now: the next look will */
    bool locked = fcntl(fd, F_OFD_GETLK, &byte) == 0 && byte.l_type != F_UNLCK;
    close(fd);
    return locked;
}

static void remove_file(uint64_t id) {
    char path[512];
    path_of(path, sizeof path, id);
    unlink(path);
}

static void remove_unheld(struct sim_state *state, struct sim_object *object) {
    if (last_holder(object) >= 0 || is_exported(object->id))
        return;
    remove_file(object->id);
    if (object->id > state->object_count)
        state->object_count = object->id; /* its maker died before it could count it */
    object->id = 0;
    while (state->object_slots && !state->objects[state->object_slots - 1].id)
        state->object_slots--;
}

/* A descriptor's own reference, of the resource manager's client, stands before all others in the
 * list from which the next owner is taken. */
static void find_owner(struct sim_object *object) {
    if (object->owner < 0 && last_holder(object) >= 0 && !is_exported(object->id))
        object->owner = last_holder(object);
}

static void drop(struct sim_state *state, struct sim_object *object, int client) {
    object->taken[client] = 0;
    if (object->owner == client)
        object->owner = -1;
    find_owner(object);
    remove_unheld(state, object);
}

static bool make_file(uint64_t id, uint64_t bytes, uint64_t *inode) {
    char path[512];
    struct stat info;
    path_of(path, sizeof path, id);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    bool ok = ftruncate(fd, (off_t)bytes) == 0 && fstat(fd, &info) == 0;
    if (ok)
        *inode = info.st_ino;
    fchmod(fd, 0666); /* with any umask: containers run as any user */
    close(fd);
    if (!ok)
        unlink(path);
    return ok;
}

static struct sim_object *free_slot(struct sim_state *state) {
    for (int try = 0; try < 2; try++) {
        if (try == 1)
            sim_clients_reap(state);
        for (uint32_t slot = 0; slot < SIM_OBJECTS_MAX; slot++)
            if (!state->objects[slot].id)
                return &state->objects[slot];
    }
    return NULL;
}

static uint64_t next_id(const struct sim_state *state) {
    uint64_t last = state->object_count;
    for (uint32_t slot = 0; slot < state->object_slots; slot++)
        if (state->objects[slot].id > last)
            last = state->objects[slot].id;
    return last + 1;
}

uint64_t sim_object_make(struct sim_state *state, int client, uint32_t card, uint64_t bytes,
                         uint64_t paid_bytes) {
    sim_lock(state);
    struct sim_object *slot = free_slot(state);
    uint64_t id = next_id(state), inode;
    bool fits = card == SIM_CARDS_MAX || sim_card_has_room(state, card, bytes - paid_bytes);
    if (!slot || !fits || !make_file(id, bytes, &inode)) {
        sim_unlock(state);
        return 0;
    }
    *slot = (struct sim_object){.bytes = bytes, .inode = inode, .card = card, .owner = client};
    take(slot, client);
    uint32_t number = (uint32_t)(slot - state->objects);
    if (number >= state->object_slots)
        state->object_slots = number + 1;
    slot->id = id;
    state->object_count = id;
    if (paid_bytes)
        state->clients[client].use[card].used_bytes -= paid_bytes;
    sim_unlock(state);
    return id;
}

bool sim_object_hold(struct sim_state *state, int client, uint64_t id, struct sim_object *found) {
    sim_lock(state);
    sim_clients_reap(state); /* memory of dead holders alone is gone */
    struct sim_object *object = find(state, id);
    if (object) {
        take(object, client);
        *found = *object;
    }
    sim_unlock(state);
    return object != NULL;
}

void sim_object_drop(struct sim_state *state, int client, uint64_t id) {
    sim_lock(state);
    struct sim_object *object = find(state, id);
    if (object)
        drop(state, object, client);
    sim_unlock(state);
}

uint64_t sim_object_of_fd(struct sim_state *state, int fd) {
    struct stat info, own;
    uint64_t id = 0;
    if (fstat(fd, &info) != 0 || fstat(sim_state_fd(), &own) != 0 || info.st_dev != own.st_dev)
        return 0;
    sim_lock(state);
    for (uint32_t slot = 0; slot < state->object_slots; slot++)
        if (state->objects[slot].id && state->objects[slot].inode == info.st_ino)
            id = state->objects[slot].id;
    sim_unlock(state);
    return id;
}

void sim_objects_forget(struct sim_state *state, int client) {
    for (uint32_t slot = 0; slot < state->object_slots; slot++) {
        struct sim_object *object = &state->objects[slot];
        if (!object->id)
            continue;
        object->taken[client] = 0;
        if (object->owner == client)
            object->owner = -1;
    }
}

/* Keeps errno: calls that only look for room leave it alone. */
void sim_objects_reap(struct sim_state *state) {
    int saved = errno;
    for (uint32_t slot = 0; slot < state->object_slots; slot++)
        if (state->objects[slot].id) {
            find_owner(&state->objects[slot]); /* where a descriptor was closed */
            remove_unheld(state, &state->objects[slot]);
        }
    remove_file(next_id(state)); /* its maker died before it took a slot */
    errno = saved;
}

uint64_t sim_objects_bytes(const struct sim_state *state, uint32_t card) {
    uint64_t bytes = 0;
    for (uint32_t slot = 0; slot < state->object_slots; slot++)
        if (state->objects[slot].id && state->objects[slot].card == card)
            bytes += state->objects[slot].bytes;
    return bytes;
}

uint64_t sim_objects_bytes_of(const struct sim_state *state, int client, uint32_t card) {
    uint64_t bytes = 0;
    for (uint32_t slot = 0; slot < state->object_slots; slot++) {
        const struct sim_object *object = &state->objects[slot];
        if (object->id && object->card == card && object->owner == client)
            bytes += object->bytes;
    }
    return bytes;
}

void sim_objects_clear(void) {
    char folder[512], name[512];
    snprintf(folder, sizeof folder, "%s", sim_state_path());
    snprintf(name, sizeof name, "%s", sim_state_path());
    const char *base = basename(name);
    size_t length = strlen(base);
    DIR *entries = opendir(dirname(folder));
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strncmp(entry->d_name, base, length) == 0 &&
            strncmp(entry->d_name + length, FILE_MARK, strlen(FILE_MARK)) == 0)
            unlinkat(dirfd(entries), entry->d_name, 0);
    if (entries)
        closedir(entries);
}
