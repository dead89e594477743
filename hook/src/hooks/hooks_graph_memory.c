#include "hooks/hooks_graph_memory.h"

#include "hooks/current_context.h"
#include "hooks/graph_spans.h"
#include "hooks/mempool_driver.h"

/* The memory that the new executable graph allocates on each device. */
static void note(struct driver *driver, CUgraphExec made, CUgraph graph) {
    struct current_context current;
    if (graph_span_bytes(driver, graph, GRAPH_ANY_DEVICE) == 0 && graph_exec_devices() == 0) {
        return;
    }
    for (CUdevice device = 0;
         device < GRAPH_EXEC_DEVICES && current_context_of_device(driver, device, &current);
         device++) {
        graph_exec_put(made, device, graph_span_bytes(driver, graph, device));
    }
}

/* After the driver's answer, which the function returns. */
static CUresult settle(struct driver *driver, CUresult result, CUgraphExec made, CUgraph graph,
                       CUgraphExec *exec) {
    if (result == CUDA_SUCCESS) {
        note(driver, made, graph);
        *exec = made;
    }
    return result;
}

CUresult gate_cuGraphInstantiate(struct driver *driver, CUgraphExec *exec, CUgraph graph,
                                 CUgraphNode *failed, char *log, size_t log_bytes) {
    CUgraphExec made = NULL;
    CUresult result = REAL(driver, cuGraphInstantiate)(exec == NULL ? NULL : &made, graph, failed,
                                                       log, log_bytes);
    return settle(driver, result, made, graph, exec);
}

CUresult gate_cuGraphInstantiate_v2(struct driver *driver, CUgraphExec *exec, CUgraph graph,
                                    CUgraphNode *failed, char *log, size_t log_bytes) {
    CUgraphExec made = NULL;
    CUresult result = REAL(driver, cuGraphInstantiate_v2)(exec == NULL ? NULL : &made, graph,
                                                          failed, log, log_bytes);
    return settle(driver, result, made, graph, exec);
}

CUresult gate_cuGraphInstantiateWithFlags(struct driver *driver, CUgraphExec *exec, CUgraph graph,
                                          cuuint64_t flags) {
    CUgraphExec made = NULL;
    CUresult result =
        REAL(driver, cuGraphInstantiateWithFlags)(exec == NULL ? NULL : &made, graph, flags);
    return settle(driver, result, made, graph, exec);
}

/* An upload that doesn't fit ends with the executable graph. */
static void undo_upload(struct driver *driver, CUgraphExec exec) {
    cuGraphExecDestroy_fn *destroy = REAL(driver, cuGraphExecDestroy);
    cuDeviceGraphMemTrim_fn *trim = REAL(driver, cuDeviceGraphMemTrim);
    uint64_t bytes;
    if (destroy != NULL) {
        destroy(exec);
    }
    for (CUdevice device = 0; device < graph_exec_devices(); device++) {
        if (graph_exec_need(exec, device, &bytes) && trim != NULL) {
            trim(device);
            graph_exec_trimmed();
        }
        graph_exec_put(exec, device, 0);
    }
    mempool_driver_query_all(driver);
}

/* The call may upload too, which takes the graph's memory: that is charged after, and undone where
 * it doesn't fit. */
static CUresult settle_upload(struct driver *driver, CUgraphExec made) {
    struct graph_memory memory;
    CUresult result = graph_memory_begin(driver, made, &memory);
    if (result == CUDA_SUCCESS) {
        return graph_memory_end(driver, made, &memory, result);
    }
    undo_upload(driver, made);
    return result;
}

CUresult gate_cuGraphInstantiateWithParams(struct driver *driver, bool per_thread,
                                           CUgraphExec *exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
    CUgraphExec made = NULL;
    CUDA_GRAPH_INSTANTIATE_PARAMS *own = READ_ONCE(driver, parameters);
    CUresult result = REAL_TWIN(driver, per_thread, cuGraphInstantiateWithParams)(
        exec == NULL ? NULL : &made, graph, own == NULL ? parameters : own);
    if (own != NULL) {
        *parameters = *own; /* the driver's answers are there too */
    }
    result = settle(driver, result, made, graph, exec);
    bool idle = own != NULL && (own->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0;
    return result != CUDA_SUCCESS || idle ? result : settle_upload(driver, made);
}

static cuuint64_t attribute(struct driver *driver, CUdevice device, int which) {
    cuDeviceGetGraphMemAttribute_fn *get = REAL(driver, cuDeviceGetGraphMemAttribute);
    cuuint64_t value = 0;
    return get != NULL && get(device, which, &value) == CUDA_SUCCESS ? value : 0;
}

/* Whether a graph may have this much of the memory that other graphs have left. */
static bool has_room(struct driver *driver, CUdevice device, uint64_t bytes) {
    uint64_t reserved = attribute(driver, device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    uint64_t used = attribute(driver, device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
    return reserved >= used && reserved - used >= bytes;
}

static CUresult charge_device(struct driver *driver, CUdevice device, uint64_t bytes,
                              struct mempool_charge *charge) {
    struct current_context current;
    struct mempool_name name = {.kind = MEMPOOL_GRAPH, .driver = driver, .device = device};
    if (!current_context_of_device(driver, device, &current)) {
        return CUDA_ERROR_NOT_PERMITTED; /* a card without a UUID has no limits */
    }
    CUresult result = mempool_charge(&current, &name, bytes, charge);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && has_room(driver, device, bytes)) {
        result = mempool_charge(&current, &name, 0, charge);
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY && mempool_driver_reclaim(driver)) {
        result = mempool_charge(&current, &name, bytes, charge);
    }
    return result;
}

CUresult graph_memory_begin(struct driver *driver, CUgraphExec exec, struct graph_memory *memory) {
    CUresult result = CUDA_SUCCESS;
    uint64_t bytes;
    *memory = (struct graph_memory){.count = 0};
    for (CUdevice device = 0; device < graph_exec_devices(); device++) {
        if (!graph_exec_need(exec, device, &bytes)) {
            continue;
        }
        result = charge_device(driver, device, bytes, &memory->charges[memory->count]);
        if (result != CUDA_SUCCESS) {
            graph_memory_end(driver, exec, memory, result);
            break;
        }
        memory->devices[memory->count++] = device;
    }
    return result;
}

CUresult graph_memory_end(struct driver *driver, CUgraphExec exec, struct graph_memory *memory,
                          CUresult result) {
    for (unsigned i = 0; i < memory->count; i++) {
        memory->charges[i].failed = result != CUDA_SUCCESS;
        if (memory->charges[i].number != 0) {
            mempool_driver_query(driver, memory->charges[i].number, &memory->charges[i], NULL);
        }
        if (result == CUDA_SUCCESS) {
            graph_exec_launched(exec, memory->devices[i]);
        }
    }
    return result;
}

CUresult gate_cuGraphUpload(struct driver *driver, bool per_thread, CUgraphExec exec,
                            CUstream stream) {
    struct graph_memory memory;
    CUresult result = graph_memory_begin(driver, exec, &memory);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL_TWIN(driver, per_thread, cuGraphUpload)(exec, stream);
    return graph_memory_end(driver, exec, &memory, result);
}

CUresult gate_cuDeviceGraphMemTrim(struct driver *driver, CUdevice device) {
    CUresult result = REAL(driver, cuDeviceGraphMemTrim)(device);
    graph_exec_trimmed();
    mempool_driver_query_all(driver);
    return result;
}
