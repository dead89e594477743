/* Stream-ordered memory in a capture: allocation and free become nodes. */
#include "capture.h"

CUresult capture_allocate(struct stream *stream, CUdevice device, uint64_t bytes,
                          uint64_t *address) {
    CUresult rc = graph_memory_node(device, bytes, address);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct node *node = capture_node(stream, NODE_MEM_ALLOC);
    if (!node) {
        graph_memory_drop(*address);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->alloc =
        (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = {.allocType = CU_MEM_ALLOCATION_PINNED,
                                                   .location = {CU_MEM_LOCATION_DEVICE, device}},
                                     .bytesize = bytes,
                                     .dptr = *address};
    return CUDA_SUCCESS;
}

CUresult capture_free(struct stream *stream, uint64_t address) {
    if (!graph_may_free(stream->capture->graph, address))
        return CUDA_ERROR_INVALID_VALUE;
    struct node *node = capture_node(stream, NODE_MEM_FREE);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->address = address;
    return CUDA_SUCCESS;
}
