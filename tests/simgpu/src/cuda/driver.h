/* Inside the simulated libcuda: one process's devices, contexts and allocations.
 *
 * `driver.lock` guards everything below except thread-local context stacks; the shared state has
 * a lock of its own, taken inside. Entry points are declared in entries.def. */
#ifndef SIMGPU_DRIVER_H
#define SIMGPU_DRIVER_H

#include <pthread.h>
#include <stdbool.h>

#include "../state/clients.h"
#include "../state/state.h"
#include "../state/timeline.h"
#include "cuda_abi.h"

#define CONTEXT_BYTES (64ULL << 20) /* what a context takes of the card: the bench's contract */
#define GRANULE_BYTES (2ULL << 20)  /* device memory is taken in these, as the real driver does */
#define SMALL_BYTES (1ULL << 20)    /* requests up to this share granules */
#define UNIT_BYTES 512ULL           /* alignment of device pointers within a granule */
#define LAUNCH_QUEUE 1024           /* launches a context queues before the next one waits */

struct driver {
    pthread_mutex_t lock;
    CUresult status; /* what cuInit answered; NOT_INITIALIZED before */
    int pid;         /* a forked child has no driver */
    struct sim_state *state;
    int client;
    int device_count;
    uint32_t cards[SIM_CARDS_MAX];          /* by device ordinal: index in the shared state */
    struct context *contexts;               /* all that were ever made; destroyed ones are marked */
    struct context *primary[SIM_CARDS_MAX]; /* by ordinal */
};
extern struct driver driver;

struct stream {
    struct stream *next;
    struct context *context;
    unsigned flags;
    int priority;
    unsigned long long id;
    unsigned long thread; /* of a per-thread default stream, else 0 */
    uint64_t tail_ns;     /* GPU time at which what it holds is done */
};

struct context {
    struct context *next;
    CUdevice device;
    uint32_t card;
    unsigned flags, version;
    unsigned long long id;
    bool destroyed, primary;
    unsigned retained; /* primary contexts only */
    size_t limits[8];
    struct stream legacy;
    struct stream *streams;
    uint64_t blocking_tail_ns; /* last work of any blocking stream: the legacy stream waits */
    uint64_t queue[LAUNCH_QUEUE];
    uint64_t launches;
    struct granule *granules; /* shared by small requests */
    struct module *modules;
    struct event *events;
};

/* NOT_INITIALIZED, what cuInit answered, or SUCCESS. */
CUresult driver_ready(void);
CUresult device_card(CUdevice device, uint32_t *card);

/* The calling thread's context: INVALID_CONTEXT without one, CONTEXT_IS_DESTROYED. */
CUresult context_current(struct context **context);
CUresult context_make(CUdevice device, unsigned flags, unsigned version, bool primary,
                      struct context **context);
void context_destroy(struct context *context);
struct context *context_of_handle(CUcontext handle);

/* Frees what a context holds; each in its own file. driver.lock held. */
void heap_drop(struct context *context);
void modules_drop(struct context *context);
void streams_drop(struct context *context);
void events_drop(struct context *context);

/* heap.c: device memory. */
enum memory_kind { MEMORY_DEVICE, MEMORY_MANAGED, MEMORY_POOL, MEMORY_HOST, MEMORY_REGISTERED };
struct memory {
    uint64_t base, bytes;
    enum memory_kind kind;
    unsigned flags;
    struct context *context;
    struct granule *granule; /* of a small request */
};
CUresult heap_allocate(struct context *context, uint64_t bytes, enum memory_kind kind, bool low,
                       uint64_t *address);
CUresult heap_free(uint64_t address);
void *heap_map(uint64_t bytes, bool low);   /* untouched address space, or NULL */
uint64_t heap_charge_bytes(uint64_t bytes); /* what a request of its own granules takes */

/* registry.c: which allocation an address lies in. driver.lock held. */
struct memory *memory_find(uint64_t address);
bool memory_add(const struct memory *memory);
void memory_remove(uint64_t base);
struct memory *memory_of_context(const struct context *context);

/* pool.c: what the stream-ordered allocator holds. driver.lock held. */
void pool_account(CUdevice device, uint64_t bytes, bool take);

/* stream.c: a handle's stream in the current context. driver.lock held, except for the waits. */
struct stream *stream_of_handle(struct context *context, CUstream handle);
uint64_t stream_queue(struct stream *stream, uint64_t duration_ns);
void stream_after(struct stream *stream, uint64_t target_ns);
bool card_done(uint32_t card, uint64_t target_ns);
void card_wait(uint32_t card, uint64_t target_ns);
void context_wait(struct context *context);
/* Waits for what a handle's stream holds; for sync copies. */
CUresult stream_drain(CUstream handle);

/* What a stream argument of NULL means in a _ptsz entry. */
static inline CUstream own_stream(CUstream handle) {
    return handle ? handle : CU_STREAM_PER_THREAD;
}

/* event.c: settles the time stamps of events that have passed. driver.lock held. */
void events_settle(struct context *context);

/* module.c */
struct function {
    struct function *next;
    struct module *module;
    char name[256];
    uint64_t duration_ns;
    bool first_parameter; /* the duration is the first parameter, in microseconds */
    int attributes[16];
};

#endif
