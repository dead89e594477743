/* Memory that mappings refer to: what a handle of cuMemCreate stands for, a piece of a pool, an
 * object of another process. It lives while something in this process refers to it; a shared one
 * also while another process does.
 *
 * Contents lie in files, so that one memory can be seen at several addresses: what is this
 * process's alone in one sparse file without a name, one descriptor for all (programs have few:
 * 1024), shared objects in the file that every process can open. */
#define _GNU_SOURCE /* memfd_create, fallocate */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "state/objects.h"

static struct backing *backings;
static struct {
    int fd;
    uint64_t end; /* offsets are not used twice: the file is sparse and may be long */
} own_file = {.fd = -1};

CUdevice device_of_card(uint32_t card) {
    for (int device = 0; device < driver.device_count; device++)
        if (driver.cards[device] == card)
            return device;
    return -1;
}

bool devices_are_peers(CUdevice device, CUdevice peer) {
    const char *link = driver.state->links[driver.cards[device]][driver.cards[peer]];
    return device == peer || strncmp(link, "NV", 2) == 0;
}

static bool grow_own_file(uint64_t bytes, uint64_t *offset) {
    if (own_file.fd < 0)
        own_file.fd = memfd_create("simgpu", MFD_CLOEXEC);
    if (own_file.fd < 0 || ftruncate(own_file.fd, (off_t)(own_file.end + bytes)) != 0)
        return false;
    *offset = own_file.end;
    own_file.end += bytes;
    return true;
}

static bool take(struct backing *backing, bool shared) {
    struct sim_state *state = driver.state;
    bool on_card = backing->card != SIM_CARDS_MAX;
    if (shared) {
        backing->object = sim_object_make(state, driver.client, backing->card, backing->bytes, 0);
        return backing->object != 0;
    }
    if (on_card && !sim_memory_take(state, driver.client, backing->card, backing->bytes))
        return false;
    if (grow_own_file(backing->bytes, &backing->offset))
        return true;
    if (on_card)
        sim_memory_give(state, driver.client, backing->card, backing->bytes);
    return false;
}

static void enlist(struct backing *backing) {
    backing->next = backings;
    backing->link = &backings;
    if (backings)
        backings->link = &backing->next;
    backings = backing;
}

struct backing *backing_make(uint32_t card, uint64_t bytes, bool shared) {
    struct backing *backing = calloc(1, sizeof *backing);
    if (!backing)
        return NULL;
    backing->references = 1;
    backing->card = card;
    backing->bytes = bytes;
    if (!take(backing, shared)) {
        free(backing);
        return NULL;
    }
    enlist(backing);
    return backing;
}

struct backing *backing_import(uint64_t object) {
    struct sim_object found;
    for (struct backing *at = backings; at; at = at->next)
        if (at->object == object) {
            at->references++;
            return at;
        }
    struct backing *backing = calloc(1, sizeof *backing);
    if (!backing || !sim_object_hold(driver.state, driver.client, object, &found)) {
        free(backing);
        return NULL;
    }
    *backing = (struct backing){
        .references = 1, .bytes = found.bytes, .card = found.card, .object = object};
    enlist(backing);
    return backing;
}

void backing_release(struct backing *backing) {
    if (--backing->references)
        return;
    *backing->link = backing->next;
    if (backing->next)
        backing->next->link = backing->link;
    if (backing->object) {
        sim_object_drop(driver.state, driver.client, backing->object);
    } else {
        fallocate(own_file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)backing->offset,
                  (off_t)backing->bytes);
        if (backing->card != SIM_CARDS_MAX)
            sim_memory_give(driver.state, driver.client, backing->card, backing->bytes);
    }
    free(backing);
}

uint64_t backing_map(const struct backing *backing, uint64_t offset, uint64_t bytes, uint64_t at) {
    int fd = backing->object ? sim_object_open(backing->object, false) : own_file.fd;
    int flags = MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    if (fd < 0)
        return 0;
    void *where = mmap((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE, flags, fd,
                       (off_t)(backing->offset + offset));
    if (backing->object)
        close(fd);
    return where == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)where;
}

void backing_unmap(uint64_t base, uint64_t bytes) { munmap((void *)(uintptr_t)base, bytes); }

uint64_t backing_show(struct backing *backing, uint64_t offset, uint64_t bytes,
                      struct memory memory) {
    uint64_t lead = offset % HOST_PAGE_BYTES;
    memory.backing = backing;
    memory.bytes = bytes;
    memory.map_bytes = lead + bytes;
    memory.map_base = backing_map(backing, offset - lead, memory.map_bytes, 0);
    memory.base = memory.map_base + lead;
    if (memory.map_base && memory_add(&memory))
        return memory.base;
    if (memory.map_base)
        backing_unmap(memory.map_base, memory.map_bytes);
    return 0;
}

void backing_hide(struct memory memory) {
    memory_remove(memory.base);
    backing_unmap(memory.map_base, memory.map_bytes);
    backing_release(memory.backing);
}
