/* What the gates of one family share with another. */
#ifndef HOOK_GATES_H
#define HOOK_GATES_H

#include "hooks/mempool_driver.h"
#include "loader/drivers.h"
#include "memory/account.h"
#include "memory/graph_exec.h"

/* The calling thread's context. `handle` is NULL where it has none: then the driver's own answer,
 * a refusal, is right. NOT_PERMITTED where its card can't be named: there are no limits for it. */
CUresult current_context_get(struct driver *driver, struct current_context *current);
/* Whether cuInit was called: until then the driver looks at no argument, and so must no gate. */
bool driver_is_initialized(struct driver *driver);
/* A device, with no context yet. */
bool current_context_of_device(struct driver *driver, CUdevice device,
                               struct current_context *current);

/* Charges memory in the calling thread's context before the driver is asked for it. Without a
 * context nothing is charged: the driver refuses. */
CUresult memory_begin(struct driver *driver, uint64_t bytes, struct charge *charge);
/* After the driver's answer. Returns it. */
CUresult memory_settle(const struct charge *charge, CUresult result, enum allocation_kind kind,
                       uint64_t handle);

/* Whether what goes to a stream becomes a node of a graph; and a stream as the entry points of the
 * per-thread default streams mean it. */
bool stream_is_capturing(struct driver *driver, CUstream stream);
CUstream stream_per_thread(CUstream stream);

/* Around a launch or an upload of a graph, which takes the memory that the graph allocates. After
 * SUCCESS the driver's answer goes to graph_memory_end, which returns it. */
struct graph_memory {
    unsigned count;
    CUdevice devices[GRAPH_EXEC_DEVICES];
    struct mempool_charge charges[GRAPH_EXEC_DEVICES];
};
CUresult graph_memory_begin(struct driver *driver, CUgraphExec exec, struct graph_memory *memory);
CUresult graph_memory_end(struct driver *driver, CUgraphExec exec, struct graph_memory *memory,
                          CUresult result);

/* A release: what was held goes back if the driver released it. */
#define RELEASE(name, kind, handle, ...)                                                           \
    struct held held = account_take(kind, (uint64_t)(handle));                                     \
    CUresult result = REAL(driver, name)(__VA_ARGS__);                                             \
    if (result == CUDA_SUCCESS) {                                                                  \
        account_return(&held);                                                                     \
    } else {                                                                                       \
        account_restore(&held);                                                                    \
    }                                                                                              \
    return result;

/* The same of device memory, which may have come from a pool. */
#define RELEASE_POINTER(name, pointer, ...)                                                        \
    struct pointer_release release = pointer_release_begin(pointer);                               \
    return pointer_release_end(driver, &release, REAL(driver, name)(__VA_ARGS__));

#endif
