/* Copies. The bytes move at the call; the time is that of the card's copy engines, which work
 * beside the multiprocessors, one for each direction. A synchronous copy waits for its end.
 *
 * Contents are kept for the first 64 MiB of each allocation (a fill of 80 GiB must not take the
 * test machine's memory); beyond, writes are dropped and reads give zeros. */
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "capture.h"
#include "launch.h"

/* One side of a copy: how many of its bytes have contents. */
struct side {
    unsigned char *at;
    uint64_t kept;
};

/* Device addresses must lie in one allocation, or in mappings side by side; driver.lock held. */
static bool device_side(CUdeviceptr address, uint64_t bytes, struct side *side) {
    if (!memory_spans(address, bytes))
        return false;
    side->at = (unsigned char *)(uintptr_t)address;
    side->kept = memory_kept_bytes(address, bytes);
    return true;
}

static struct side host_side(const void *address, uint64_t bytes) {
    return (struct side){(unsigned char *)(uintptr_t)address, bytes};
}

static void move(struct side to, struct side from) {
    uint64_t both = to.kept < from.kept ? to.kept : from.kept;
    memmove(to.at, from.at, both);
    if (to.kept > both)
        memset(to.at + both, 0, to.kept - both);
}

enum direction { TO_DEVICE, TO_HOST, IN_DEVICE, BY_ADDRESS };

static CUresult sides(enum direction direction, CUdeviceptr to, CUdeviceptr from, uint64_t bytes,
                      struct side *target, struct side *source) {
    bool to_known = direction == TO_HOST ? false : device_side(to, bytes, target);
    bool from_known = direction == TO_DEVICE ? false : device_side(from, bytes, source);
    bool bad = (!to_known && direction != TO_HOST && direction != BY_ADDRESS) ||
               (!from_known && direction != TO_DEVICE && direction != BY_ADDRESS);
    if (!to_known)
        *target = host_side((void *)(uintptr_t)to, bytes);
    if (!from_known)
        *source = host_side((void *)(uintptr_t)from, bytes);
    return bad ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult copy_now(CUdeviceptr to, CUdeviceptr from, uint64_t bytes) {
    struct side target, source;
    CUresult rc = sides(BY_ADDRESS, to, from, bytes, &target, &source);
    if (rc == CUDA_SUCCESS)
        move(target, source);
    return rc;
}

/* The card of an address, SIM_CARDS_MAX: the host's memory. */
static uint32_t card_of(CUdeviceptr address) {
    const struct memory *memory = memory_find(address);
    if (!memory || memory->kind >= MEMORY_HOST)
        return SIM_CARDS_MAX;
    return memory->context ? memory->context->card : driver.cards[memory->device];
}

/* NV<n>: n links, side by side. */
static uint64_t peer_mb_s(uint32_t a, uint32_t b) {
    unsigned links;
    bool nvlink = sscanf(driver.state->links[a][b], "NV%u", &links) == 1;
    const struct sim_timing *timing = &driver.state->timing;
    return nvlink ? links * timing->nvlink_mb_s : timing->copy_mb_s[SIM_PEER];
}

uint64_t copy_queue(struct context *context, uint64_t after_ns, CUdeviceptr to, CUdeviceptr from,
                    uint64_t bytes) {
    uint32_t target = card_of(to), source = card_of(from);
    if (target == SIM_CARDS_MAX && source == SIM_CARDS_MAX)
        return after_ns; /* the processor's work */
    enum sim_engine engine = source == SIM_CARDS_MAX   ? SIM_TO_DEVICE
                             : target == SIM_CARDS_MAX ? SIM_TO_HOST
                             : target == source        ? SIM_IN_DEVICE
                                                       : SIM_PEER;
    uint64_t mb_s = driver.state->timing.copy_mb_s[engine];
    if (engine == SIM_PEER)
        mb_s = peer_mb_s(target, source);
    sim_lock(driver.state);
    sim_timeline_advance(driver.state, context->card, sim_now_ns());
    uint64_t end = sim_timeline_copy(driver.state, driver.client, context->card, after_ns, engine,
                                     bytes * 1000 / mb_s);
    sim_unlock(driver.state);
    return end;
}

static CUresult capture(struct stream *stream, CUdeviceptr to, CUdeviceptr from, uint64_t bytes) {
    struct node *node = capture_node(stream, NODE_MEMCPY);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->copy = (CUDA_MEMCPY3D){.srcMemoryType = 4, /* unified: an address says where it is */
                                 .srcDevice = from,
                                 .dstMemoryType = 4,
                                 .dstDevice = to,
                                 .WidthInBytes = bytes,
                                 .Height = 1,
                                 .Depth = 1};
    return CUDA_SUCCESS;
}

static CUresult copy(enum direction direction, CUdeviceptr to, CUdeviceptr from, uint64_t bytes,
                     CUstream handle, bool wait) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS || bytes == 0)
        return rc;
    if (!to || !from)
        return CUDA_ERROR_INVALID_VALUE;
    if (wait)
        rc = stream_drain(handle);
    uint64_t end_ns = 0;
    struct side target = {0}, source = {0};
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = rc == CUDA_SUCCESS ? stream_of_handle(context, handle) : NULL;
    if (rc == CUDA_SUCCESS)
        rc = stream ? capture_enter(stream) : CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS)
        rc = sides(direction, to, from, bytes, &target, &source);
    if (rc == CUDA_SUCCESS && stream->capture)
        rc = capture(stream, to, from, bytes);
    else if (rc == CUDA_SUCCESS) {
        move(target, source);
        end_ns = copy_queue(stream->context, stream_front(stream), to, from, bytes);
        stream_after(stream, end_ns);
    }
    pthread_mutex_unlock(&driver.lock);
    if (wait && end_ns)
        card_wait(context->card, end_ns);
    return rc;
}

#define ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    return copy(TO_DEVICE, to, ADDRESS(from), bytes, NULL, true);
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes) {
    return copy(TO_DEVICE, to, ADDRESS(from), bytes, CU_STREAM_PER_THREAD, true);
}
CUresult cuMemcpyHtoD(CUdeviceptr_v1 to, const void *from, unsigned bytes) {
    return cuMemcpyHtoD_v2(to, from, bytes);
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    return copy(TO_HOST, ADDRESS(to), from, bytes, NULL, true);
}
CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes) {
    return copy(TO_HOST, ADDRESS(to), from, bytes, CU_STREAM_PER_THREAD, true);
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr_v1 from, unsigned bytes) {
    return cuMemcpyDtoH_v2(to, from, bytes);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy(IN_DEVICE, to, from, bytes, NULL, true);
}
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy(IN_DEVICE, to, from, bytes, CU_STREAM_PER_THREAD, true);
}
CUresult cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned bytes) {
    return cuMemcpyDtoD_v2(to, from, bytes);
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy(BY_ADDRESS, to, from, bytes, NULL, true);
}
CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy(BY_ADDRESS, to, from, bytes, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return copy(TO_DEVICE, to, ADDRESS(from), bytes, stream, false);
}
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes,
                                   CUstream stream) {
    return copy(TO_DEVICE, to, ADDRESS(from), bytes, own_stream(stream), false);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy(TO_HOST, ADDRESS(to), from, bytes, stream, false);
}
CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy(TO_HOST, ADDRESS(to), from, bytes, own_stream(stream), false);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy(IN_DEVICE, to, from, bytes, stream, false);
}
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) {
    return copy(IN_DEVICE, to, from, bytes, own_stream(stream), false);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy(BY_ADDRESS, to, from, bytes, stream, false);
}
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy(BY_ADDRESS, to, from, bytes, own_stream(stream), false);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 to, const void *from, unsigned bytes, CUstream stream) {
    return cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr_v1 from, unsigned bytes, CUstream stream) {
    return cuMemcpyDtoHAsync_v2(to, from, bytes, stream);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned bytes,
                           CUstream stream) {
    return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

static CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                          CUcontext from_context, size_t bytes, CUstream stream, bool wait) {
    pthread_mutex_lock(&driver.lock);
    bool known = context_of_handle(to_context) && context_of_handle(from_context);
    pthread_mutex_unlock(&driver.lock);
    return known ? copy(IN_DEVICE, to, from, bytes, stream, wait) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes) {
    return copy_peer(to, to_context, from, from_context, bytes, NULL, true);
}
CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes) {
    return copy_peer(to, to_context, from, from_context, bytes, CU_STREAM_PER_THREAD, true);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream) {
    return copy_peer(to, to_context, from, from_context, bytes, stream, false);
}
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                CUcontext from_context, size_t bytes, CUstream stream) {
    return copy_peer(to, to_context, from, from_context, bytes, own_stream(stream), false);
}
