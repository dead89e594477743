/* Streams: in-order queues of GPU time, and waiting for them. */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "api.h"
#include "capture.h"
#include "launch.h"

/* A sleep ends some 50 microseconds late (the kernel's timer slack), so the last part of a wait
 * is spent yielding, as the real driver spins. */
#define SPIN_NS 80000ULL

/* Threads are told apart by the address of a thread-local byte: a later thread may get the
 * address, and then finds the earlier one's stream drained or in order. */
unsigned long stream_thread(void) {
    static __thread char mark;
    return (unsigned long)(uintptr_t)&mark;
}

static struct stream *new_stream(struct context *context, unsigned flags, int priority) {
    static unsigned long long next_id = 8; /* low numbers belong to the default streams */
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = next_id++;
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

static struct stream *thread_stream(struct context *context) {
    for (struct stream *at = context->streams; at; at = at->next)
        if (at->thread == stream_thread())
            return at;
    struct stream *stream = new_stream(context, 0, 0);
    if (stream)
        stream->thread = stream_thread();
    return stream;
}

struct stream *stream_of_handle(struct context *context, CUstream handle) {
    if (!handle || handle == CU_STREAM_LEGACY)
        return &context->legacy;
    if (handle == CU_STREAM_PER_THREAD)
        return thread_stream(context);
    for (struct context *at = driver.contexts; at; at = at->next)
        for (struct stream *stream = at->streams; stream; stream = stream->next)
            if (stream == handle)
                return stream;
    return NULL;
}

static bool is_legacy(const struct stream *stream) { return stream == &stream->context->legacy; }

/* The work that a stream's next work waits for: the legacy stream and the blocking streams of its
 * context wait for each other. */
uint64_t stream_front(const struct stream *stream) {
    const struct context *context = stream->context;
    uint64_t other = 0;
    if (is_legacy(stream))
        other = context->blocking_tail_ns;
    else if (!(stream->flags & CU_STREAM_NON_BLOCKING))
        other = context->legacy.tail_ns;
    return other > stream->tail_ns ? other : stream->tail_ns;
}

void stream_after(struct stream *stream, uint64_t target_ns) {
    struct context *context = stream->context;
    if (target_ns > stream->tail_ns)
        stream->tail_ns = target_ns;
    bool blocking = !is_legacy(stream) && !(stream->flags & CU_STREAM_NON_BLOCKING);
    if (blocking && stream->tail_ns > context->blocking_tail_ns)
        context->blocking_tail_ns = stream->tail_ns;
}

uint64_t context_queue(struct context *context, uint64_t after_ns, uint64_t duration_ns) {
    uint32_t card = context->card;
    sim_lock(driver.state);
    sim_timeline_advance(driver.state, card, sim_now_ns());
    uint64_t end = sim_timeline_queue(driver.state, driver.client, card, after_ns, duration_ns);
    sim_unlock(driver.state);
    return end;
}

uint64_t stream_queue(struct stream *stream, uint64_t duration_ns) {
    uint64_t end = context_queue(stream->context, stream_front(stream), duration_ns);
    stream_after(stream, end);
    return end;
}

/* Lower bound of the time to the target. A neighbour that died no longer has its turn. */
static uint64_t look(uint32_t card, uint64_t target_ns) {
    sim_lock(driver.state);
    sim_timeline_advance(driver.state, card, sim_now_ns());
    int running = driver.state->cards[card].running;
    if (running >= 0 && running != driver.client)
        sim_clients_reap(driver.state);
    uint64_t wait = 0;
    if (driver.state->clients[driver.client].in_use)
        wait = sim_timeline_wait_ns(driver.state, driver.client, card, target_ns);
    sim_unlock(driver.state);
    return wait;
}

bool card_done(uint32_t card, uint64_t target_ns) { return look(card, target_ns) == 0; }

void card_wait(uint32_t card, uint64_t target_ns) {
    for (uint64_t wait = look(card, target_ns); wait > 0; wait = look(card, target_ns)) {
        if (wait <= SPIN_NS) {
            sched_yield();
            continue;
        }
        wait -= SPIN_NS;
        struct timespec pause = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
        nanosleep(&pause, NULL);
    }
}

void context_wait(struct context *context) {
    pthread_mutex_lock(&driver.lock);
    uint64_t target = context->legacy.tail_ns;
    for (struct stream *at = context->streams; at; at = at->next)
        target = at->tail_ns > target ? at->tail_ns : target;
    pthread_mutex_unlock(&driver.lock);
    card_wait(context->card, target);
    callback_wait(0, context);
    pthread_mutex_lock(&driver.lock);
    events_settle(context);
    pthread_mutex_unlock(&driver.lock);
}

/* A stream and its work now: the time at which it is done, the last host function. */
struct held {
    struct context *context;
    uint64_t target_ns;
    uint64_t host_call;
};

static CUresult find(CUstream handle, struct held *held) {
    CUresult rc = context_current(&held->context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = stream_of_handle(held->context, handle);
    rc = stream ? capture_refuse_wait(stream) : CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS)
        *held = (struct held){stream->context, stream_front(stream), stream->host_call};
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult stream_drain(CUstream handle) {
    struct held held;
    CUresult rc = find(handle, &held);
    if (rc != CUDA_SUCCESS)
        return rc;
    card_wait(held.context->card, held.target_ns);
    callback_wait(held.host_call, NULL);
    pthread_mutex_lock(&driver.lock);
    events_settle(held.context);
    pthread_mutex_unlock(&driver.lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
    struct context *context;
    CUresult rc = stream_drain(handle);
    if (rc == CUDA_SUCCESS && context_current(&context) == CUDA_SUCCESS)
        pools_synchronized(context->card);
    return rc;
}

CUresult cuStreamSynchronize_ptsz(CUstream handle) {
    return cuStreamSynchronize(own_stream(handle));
}

CUresult cuStreamQuery(CUstream handle) {
    struct held held;
    CUresult rc = find(handle, &held);
    if (rc != CUDA_SUCCESS)
        return rc;
    bool done = card_done(held.context->card, held.target_ns) && callback_done(held.host_call);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamQuery_ptsz(CUstream handle) { return cuStreamQuery(own_stream(handle)); }

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority; /* clamped, as documented */
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = new_stream(context, flags, priority);
    pthread_mutex_unlock(&driver.lock);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags) {
    return cuStreamCreateWithPriority(out, flags, 0);
}

/* Its queued work stays on the card, as in the real driver. */
CUresult cuStreamDestroy_v2(CUstream handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&driver.lock);
    for (struct context *context = driver.contexts; context; context = context->next)
        for (struct stream **link = &context->streams; *link; link = &(*link)->next)
            if (*link == handle && !(*link)->thread) {
                *link = handle->next;
                capture_leave(handle);
                free(handle);
                rc = CUDA_SUCCESS;
                goto found;
            }
found:
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

void streams_drop(struct context *context) {
    while (context->streams) {
        struct stream *next = context->streams->next;
        capture_leave(context->streams);
        free(context->streams);
        context->streams = next;
    }
}
