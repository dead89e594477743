/* Inside the simulated libcuda: one process's devices, contexts and allocations.
 *
 * `driver.lock` guards everything below except thread-local context stacks; the shared state has
 * a lock of its own, taken inside. Entry points are declared in entries.def. */
#ifndef SIMGPU_DRIVER_H
#define SIMGPU_DRIVER_H

#include <pthread.h>
#include <stdbool.h>

#include "cuda_abi.h"
#include "state/clients.h"
#include "state/state.h"
#include "state/timeline.h"

#define CONTEXT_BYTES (64ULL << 20) /* what a context takes of the card: the testbed's contract */
#define GRANULE_BYTES (2ULL << 20)  /* device memory is taken in these, as the real driver does */
#define SMALL_BYTES (1ULL << 20)    /* requests up to this share granules */
#define UNIT_BYTES 512ULL           /* alignment of device pointers within a granule */
#define CONTENT_BYTES (64ULL << 20) /* kept of an allocation's contents: see copy.c */
#define HOST_PAGE_BYTES 4096ULL
#define LAUNCH_QUEUE 1024 /* launches a context queues before the next one waits */

static inline uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return bytes > UINT64_MAX - unit ? UINT64_MAX : (bytes + unit - 1) / unit * unit;
}

struct driver {
    pthread_mutex_t lock;
    CUresult status; /* the answer of cuInit; NOT_INITIALIZED before */
    int pid;
    const int *alive; /* 0 in a forked child, which has no driver: the kernel wipes it */
    struct sim_state *state;
    int client;
    int device_count;
    uint32_t cards[SIM_CARDS_MAX];          /* by device ordinal: index in the shared state */
    struct context *contexts;               /* all since the start; destroyed ones are marked */
    struct context *primary[SIM_CARDS_MAX]; /* by ordinal */
};
extern struct driver driver;

/* A set of graph nodes: graph.h. */
struct nodes {
    struct node **items;
    size_t count;
};

struct stream {
    struct stream *next;
    struct context *context;
    unsigned flags;
    int priority;
    unsigned long long id;
    unsigned long thread;    /* of a per-thread default stream, else 0 */
    uint64_t tail_ns;        /* GPU time at which its work is done */
    struct capture *capture; /* capture.h; NULL: its work goes to the card */
    struct nodes tips;       /* of a capture: the nodes before its next one */
    uint64_t host_call;      /* number of the last host function queued here: callback.c */
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
    struct array *arrays;
    struct mipmap *mipmaps;
    uint64_t heap_bytes, stack_bytes; /* memory that limits took of the card: limits.c */
    struct module *modules;
    struct event *events;
};

/* NOT_INITIALIZED, the answer of cuInit, or SUCCESS. */
CUresult driver_ready(void);
CUresult device_card(CUdevice device, uint32_t *card);

/* The calling thread's context: INVALID_CONTEXT without one, CONTEXT_IS_DESTROYED. */
CUresult context_current(struct context **context);
CUresult context_make(CUdevice device, unsigned flags, unsigned version, bool primary,
                      struct context **context);
void context_destroy(struct context *context);
struct context *context_of_handle(CUcontext handle);

/* Free a context's memory; each in its own file. driver.lock held. */
void heap_drop(struct context *context);
void modules_drop(struct context *context);
void streams_drop(struct context *context);
void events_drop(struct context *context);
void arrays_drop(struct context *context);
void externals_drop(struct context *context);
void limits_drop(struct context *context);

/* Device memory by address; kinds up to the last device kind take of a card. */
enum memory_kind {
    MEMORY_DEVICE,   /* heap.c: of a context */
    MEMORY_MANAGED,  /* heap.c: of a context */
    MEMORY_POOL,     /* async.c: a block of a pool */
    MEMORY_SHARED,   /* ipc.c, pool_share.c: another process's, opened here */
    MEMORY_EXTERNAL, /* external.c: a buffer on an imported object */
    MEMORY_VIRTUAL,  /* virtual.c: a mapping in a reserved range */
    MEMORY_GRAPH,    /* graph_memory.c: of an alloc node */
    MEMORY_HOST,
    MEMORY_REGISTERED
};
struct memory {
    uint64_t base, bytes;
    uint64_t id; /* unique in a process; set by memory_add */
    enum memory_kind kind;
    unsigned flags;
    CUdevice device;
    struct context *context;            /* NULL: belongs to the process */
    struct granule *granule;            /* of a small request */
    uint64_t object;                    /* that a heap allocation became when it was exported */
    struct backing *backing;            /* the memory under a mapping; counted as one reference */
    struct physical *physical;          /* MEMORY_VIRTUAL: the handle's allocation, likewise */
    struct block *block;                /* MEMORY_POOL */
    uint64_t map_base, map_bytes;       /* the bytes for munmap, for mappings of a backing */
    unsigned opens;                     /* MEMORY_SHARED by cuIpcOpenMemHandle: how many times */
    unsigned access[SIM_CARDS_MAX + 1]; /* MEMORY_VIRTUAL, by device; the last is the host */
    bool sync_operations;
};

/* heap.c: allocations of contexts. */
CUresult heap_allocate(struct context *context, uint64_t bytes, enum memory_kind kind, bool low,
                       uint64_t *address);
void heap_free(struct memory memory);
/* Room of memory->context for memory->bytes, without an entry in the registry; for array.c.
 * driver.lock held. */
bool heap_take(struct memory *memory, bool low);
void heap_give(const struct memory *memory);
void *heap_map(uint64_t bytes, bool low);   /* untouched address space, or NULL */
uint64_t heap_charge_bytes(uint64_t bytes); /* the size of a request with granules of its own */
/* Makes an allocation's block (its own, or the granule it shares) an object that other processes
 * can open. Returns the object's number or 0. driver.lock held. */
uint64_t heap_share(struct memory *memory, uint64_t *block_base, uint64_t *block_bytes);

/* registry.c: the allocation of an address. driver.lock held. */
struct memory *memory_find(uint64_t address);
/* The first one that has a part in a range of addresses, or NULL. */
struct memory *memory_in(uint64_t base, uint64_t bytes);
struct memory *memory_after(const struct memory *memory); /* the next one, or NULL */
bool memory_add(const struct memory *memory);
void memory_remove(uint64_t base);
struct memory *memory_of_context(const struct context *context);
/* Whether bytes from the address on lie in one allocation, or in mappings side by side. */
bool memory_spans(uint64_t address, uint64_t bytes);
/* How many of these bytes have contents; allocations keep the contents of their first part only. */
uint64_t memory_kept_bytes(uint64_t address, uint64_t bytes);

/* backing.c: memory that mappings refer to, this process's own or shared. driver.lock held. */
struct backing {
    struct backing *next, **link; /* link: the place that points here */
    unsigned references;
    uint64_t bytes;
    uint32_t card;   /* SIM_CARDS_MAX: host memory */
    uint64_t object; /* 0: of this process alone */
    uint64_t offset; /* in the process's own file */
};
struct backing *backing_make(uint32_t card, uint64_t bytes, bool shared);
struct backing *backing_import(uint64_t object);
void backing_release(struct backing *backing);
/* Maps a part; at: where, 0: anywhere. Returns the address or 0. */
uint64_t backing_map(const struct backing *backing, uint64_t offset, uint64_t bytes, uint64_t at);
void backing_unmap(uint64_t base, uint64_t bytes);
/* Registers a mapping of a part, of this kind; the mapping takes over the caller's reference when
 * it succeeds. Returns its address or 0. */
uint64_t backing_show(struct backing *backing, uint64_t offset, uint64_t bytes,
                      struct memory memory);
void backing_hide(struct memory memory);
/* The ordinal by which this process knows a card, or -1. */
CUdevice device_of_card(uint32_t card);
bool devices_are_peers(CUdevice device, CUdevice peer);

/* virtual.c: the reserved range that an address lies in. driver.lock held. */
bool reservation_find(uint64_t address, uint64_t *base, uint64_t *bytes);
/* physical.c: one more mapping, or one less, of an allocation; by handle. driver.lock held. */
struct physical {
    struct physical *next, **link;
    unsigned handles, mappings;
    struct backing *backing;
    CUmemAllocationProp properties;
};
struct physical *physical_find(CUmemGenericAllocationHandle handle);
CUresult physical_add(struct backing *backing, const CUmemAllocationProp *properties,
                      CUmemGenericAllocationHandle *handle);
void physical_settle(struct physical *physical);
CUresult check_location(const CUmemLocation *location, uint32_t *card);

/* mipmap.c: a mipmapped array, on memory of its own or (backing) of an external object; the
 * latter gets one reference more. driver.lock held. */
CUresult mipmap_make(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                     unsigned levels, struct backing *backing, struct mipmap **out);
uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels);
CUresult array_check(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);

/* pool.c, blocks.c: stream-ordered memory. driver.lock held. */
struct pool {
    struct pool *next;
    CUdevice device;
    uint32_t card; /* SIM_CARDS_MAX: host memory */
    bool is_default, imported, destroyed;
    int handle_types;
    struct backing *identity; /* an object of no bytes, by which other processes know it */
    uint64_t maximum_bytes;
    uint64_t reserved_bytes, reserved_high_bytes, used_bytes, used_high_bytes;
    uint64_t threshold_bytes;
    int reuse[3]; /* by event dependency, opportunistic, by a new dependency */
    unsigned access[SIM_CARDS_MAX + 1];
    struct chunk *chunks;
};
struct block {
    struct block *next; /* the block that begins at this one's end, or NULL */
    struct chunk *chunk;
    uint64_t base, bytes;
    bool used;
    const struct stream *stream; /* in which it was freed; only compared */
    uint32_t ready_card;
    uint64_t ready_ns; /* GPU time of the free; 0: it is over */
};
struct chunk {
    struct chunk *next;
    struct pool *pool;
    struct backing *backing;
    uint64_t base, bytes;
    struct block *blocks;
};
struct pool *pool_default(CUdevice device);
struct pool *pool_current(CUdevice device);
struct pool *pool_find(CUmemoryPool handle);
struct pool *pool_import(struct backing *identity);
struct block *block_take(struct pool *pool, struct stream *stream, uint64_t bytes);
/* stream NULL: all work is over. */
void block_give(struct block *block, struct stream *stream);
void block_free(struct memory memory, struct stream *stream);

/* memory.c: gives back memory that waits for a stream at most (NULL: none). Memory opened by IPC or
 * mapped into a reserved range has calls of its own. driver.lock held. */
CUresult memory_release(struct memory memory, struct stream *stream);
void pool_trim(struct pool *pool, uint64_t keep_bytes);
void pool_settle(struct pool *pool); /* frees a destroyed pool with its last block */
/* After a synchronisation on the card: pools go down to their thresholds. Takes driver.lock. */
void pools_synchronized(uint32_t card), pools_reset(CUdevice device);

/* graph_memory.c: memory of graphs' alloc nodes. driver.lock held. A node's address is fixed when
 * the node is made; memory is taken when the allocation runs, given back when the free runs, and
 * kept for other graphs until cuDeviceGraphMemTrim. */
CUresult graph_memory_node(CUdevice device, uint64_t bytes, uint64_t *address);
void graph_memory_hold(uint64_t address), graph_memory_drop(uint64_t address); /* by nodes */
CUresult graph_memory_take(uint64_t address);
CUresult graph_memory_give(uint64_t address);
bool graph_memory_is_taken(uint64_t address), graph_memory_is_node(uint64_t address);

/* limits.c: a module with code that calls malloc was loaded. driver.lock held. */
CUresult limits_load_module(struct context *context);

/* stream.c: a handle's stream in the current context. driver.lock held, except for the waits. */
struct stream *stream_of_handle(struct context *context, CUstream handle);
uint64_t stream_queue(struct stream *stream, uint64_t duration_ns); /* a kernel; its end */
uint64_t context_queue(struct context *context, uint64_t after_ns, uint64_t duration_ns);
uint64_t stream_front(const struct stream *stream); /* what its next work waits for */
unsigned long stream_thread(void);                  /* the calling thread */
void stream_after(struct stream *stream, uint64_t target_ns);
bool card_done(uint32_t card, uint64_t target_ns);
void card_wait(uint32_t card, uint64_t target_ns);
void context_wait(struct context *context);
/* Waits for the work of a handle's stream; for sync copies. */
CUresult stream_drain(CUstream handle);

/* The stream that NULL means in a _ptsz entry. */
static inline CUstream own_stream(CUstream handle) {
    return handle ? handle : CU_STREAM_PER_THREAD;
}

/* event.c: settles the time stamps of events that have passed. driver.lock held. */
void events_settle(struct context *context);

/* module.c, image.c */
struct function {
    struct function *next;
    struct module *module;   /* NULL: a kernel of a library, good in every context */
    struct library *library; /* library.c */
    char name[256];
    uint64_t duration_ns;
    bool first_parameter; /* the duration is the first parameter, in microseconds */
    int attributes[16];
    unsigned block[3], shared_bytes; /* launch_legacy.c: set before the launch */
    unsigned char parameters[4096];  /* the most that a kernel may take */
};

#endif
