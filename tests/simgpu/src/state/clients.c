/* Liveness by POSIX record locks: the kernel drops them with the process, however it ends, and
 * F_GETLK tells the owner's PID in the reader's own PID namespace, as the real driver's NVML does
 * for the host. An OFD lock would not do: it has no PID. */
#include "clients.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "objects.h"
#include "timeline.h"
#include "windows.h"

#define SIM_LOCK_BASE (1LL << 40) /* past the file's end, where no process reads or writes */

static struct flock byte_of(int client) {
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = SIM_LOCK_BASE + client, .l_len = 1};
}

static uint64_t own_token(void) {
    uint64_t token;
    memcpy(&token, (const void *)getauxval(AT_RANDOM), sizeof token);
    return token;
}

static bool is_own(const struct sim_client *client) {
    return client->in_use && client->pid == getpid() && client->token == own_token();
}

static void own_name(char *name, size_t size) {
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, name, size - 1);
    if (fd >= 0)
        close(fd);
    name[got > 0 ? got : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

static void release(struct sim_state *state, int client) {
    if (state->clients[client].in_use)
        sim_windows_end(state, client);
    sim_timeline_forget(state, client);
    sim_objects_forget(state, client);
    memset(&state->clients[client], 0, offsetof(struct sim_client, segments));
}

static bool try_claim(struct sim_state *state, int slot) {
    struct sim_client *client = &state->clients[slot];
    struct flock byte = byte_of(slot);
    /* A lock of our own never conflicts: another copy of this library may hold this slot. */
    if (is_own(client) || fcntl(sim_state_fd(), F_SETLK, &byte) != 0)
        return false;
    release(state, slot);
    client->pid = getpid();
    client->pid_namespace = sim_pid_namespace();
    client->token = own_token();
    own_name(client->name, sizeof client->name);
    client->in_use = 1;
    return true;
}

int sim_client_claim(struct sim_state *state) {
    int found = -1;
    sim_lock(state);
    for (int slot = 0; slot < SIM_CLIENTS_MAX && found < 0; slot++)
        if (try_claim(state, slot))
            found = slot;
    sim_unlock(state);
    if (found < 0)
        errno = EAGAIN;
    return found;
}

int sim_client_pid(const struct sim_state *state, int client) {
    const struct sim_client *entry = &state->clients[client];
    if (!entry->in_use)
        return -1;
    struct flock byte = byte_of(client);
    if (fcntl(sim_state_fd(), F_GETLK, &byte) == 0 && byte.l_type != F_UNLCK)
        return byte.l_pid > 0 ? byte.l_pid : 0;
    return is_own(entry) ? getpid() : -1;
}

bool sim_clients_any(struct sim_state *state) {
    bool any = false;
    sim_lock(state);
    for (int slot = 0; slot < SIM_CLIENTS_MAX && !any; slot++)
        any = sim_client_pid(state, slot) >= 0;
    sim_unlock(state);
    return any;
}

void sim_clients_reap(struct sim_state *state) {
    for (int slot = 0; slot < SIM_CLIENTS_MAX; slot++)
        if (state->clients[slot].in_use && sim_client_pid(state, slot) < 0)
            release(state, slot);
    sim_objects_reap(state);
}

uint64_t sim_card_used_bytes(const struct sim_state *state, uint32_t card) {
    uint64_t used = sim_objects_bytes(state, card);
    for (int slot = 0; slot < SIM_CLIENTS_MAX; slot++)
        if (state->clients[slot].in_use)
            used += state->clients[slot].use[card].used_bytes;
    return used;
}

uint64_t sim_client_used_bytes(const struct sim_state *state, int client, uint32_t card) {
    return state->clients[client].use[card].used_bytes + sim_objects_bytes_of(state, client, card);
}

bool sim_card_has_room(struct sim_state *state, uint32_t card, uint64_t bytes) {
    uint64_t total = state->cards[card].memory_bytes;
    for (int try = 0; try < 2; try++) { /* the second time without the dead */
        if (try == 1)
            sim_clients_reap(state);
        uint64_t used = sim_card_used_bytes(state, card);
        if (used <= total && bytes <= total - used)
            return true;
    }
    return false;
}

bool sim_memory_take(struct sim_state *state, int client, uint32_t card, uint64_t bytes) {
    sim_lock(state);
    bool fits = sim_card_has_room(state, card, bytes);
    if (fits)
        state->clients[client].use[card].used_bytes += bytes;
    sim_unlock(state);
    return fits;
}

void sim_memory_give(struct sim_state *state, int client, uint32_t card, uint64_t bytes) {
    sim_lock(state);
    struct sim_use *use = &state->clients[client].use[card];
    use->used_bytes -= bytes < use->used_bytes ? bytes : use->used_bytes;
    sim_unlock(state);
}
