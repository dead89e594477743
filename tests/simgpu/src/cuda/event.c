/* Events: a point in a stream, and the wall time at which the card passed it. */
#include <stdlib.h>

#include "api.h"

struct event {
    struct event *next;
    struct context *context;
    unsigned flags;
    bool recorded;
    uint64_t target_ns; /* GPU time of its client on its card */
    uint64_t wall_ns;   /* 0: not yet passed, or not yet looked up */
};

static struct event **find_link(CUevent handle) {
    for (struct context *context = driver.contexts; context; context = context->next)
        for (struct event **link = &context->events; *link; link = &(*link)->next)
            if (*link == handle)
                return link;
    return NULL;
}

static struct event *find(CUevent handle) {
    struct event **link = handle ? find_link(handle) : NULL;
    return link ? *link : NULL;
}

/* The time line remembers a client's last turns only, so passed events are looked up early. */
static void settle(struct event *event) {
    uint32_t card = event->context->card;
    if (!event->recorded || event->wall_ns)
        return;
    if (driver.state->clients[driver.client].use[card].progress_ns >= event->target_ns)
        event->wall_ns = sim_timeline_wall_ns(driver.state, driver.client, card, event->target_ns);
}

void events_settle(struct context *context) {
    if (!context->events)
        return;
    sim_lock(driver.state);
    sim_timeline_advance(driver.state, context->card, sim_now_ns());
    for (struct event *event = context->events; event; event = event->next)
        settle(event);
    sim_unlock(driver.state);
}

CUresult cuEventCreate(CUevent *out, unsigned flags) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->context = context;
    event->flags = flags;
    pthread_mutex_lock(&driver.lock);
    event->next = context->events;
    context->events = event;
    pthread_mutex_unlock(&driver.lock);
    *out = event;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct event **link = handle ? find_link(handle) : NULL;
    if (link) {
        *link = handle->next;
        free(handle);
    }
    pthread_mutex_unlock(&driver.lock);
    return link ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventDestroy(CUevent handle) { return cuEventDestroy_v2(handle); }

void events_drop(struct context *context) {
    while (context->events) {
        struct event *next = context->events->next;
        free(context->events);
        context->events = next;
    }
}

/* Marks the point that the stream has reached; on an idle stream it has passed already. */
static void mark(struct event *event, struct stream *stream) {
    struct sim_state *state = driver.state;
    event->target_ns = stream_queue(stream, 0);
    event->recorded = true;
    event->wall_ns = 0;
    sim_lock(state);
    if (state->clients[driver.client].use[stream->context->card].progress_ns >= event->target_ns)
        event->wall_ns = sim_now_ns();
    sim_unlock(state);
}

static CUresult record(CUevent handle, CUstream stream_handle) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct event *event = find(handle);
    struct stream *stream = event ? stream_of_handle(context, stream_handle) : NULL;
    if (!stream || stream->context != event->context)
        rc = CUDA_ERROR_INVALID_HANDLE;
    else
        mark(event, stream);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return record(event, stream); }

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
    return record(event, own_stream(stream));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    return flags <= 1 ? record(event, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
    return cuEventRecordWithFlags(event, own_stream(stream), flags);
}

static CUresult copy_out(CUevent handle, struct event *copy) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct event *event = find(handle);
    if (event) {
        sim_lock(driver.state);
        sim_timeline_advance(driver.state, event->context->card, sim_now_ns());
        settle(event);
        sim_unlock(driver.state);
        *copy = *event;
    }
    pthread_mutex_unlock(&driver.lock);
    return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* An event that was never recorded counts as done. */
CUresult cuEventQuery(CUevent handle) {
    struct event event;
    CUresult rc = copy_out(handle, &event);
    return rc == CUDA_SUCCESS && event.recorded && !event.wall_ns ? CUDA_ERROR_NOT_READY : rc;
}

CUresult cuEventSynchronize(CUevent handle) {
    struct event event;
    CUresult rc = copy_out(handle, &event);
    if (rc == CUDA_SUCCESS && event.recorded && !event.wall_ns) {
        card_wait(event.context->card, event.target_ns);
        rc = copy_out(handle, &event); /* settles its time stamp */
    }
    return rc;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start_handle, CUevent end_handle) {
    struct event start, end;
    CUresult rc = copy_out(start_handle, &start);
    if (rc == CUDA_SUCCESS)
        rc = copy_out(end_handle, &end);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!milliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!start.recorded || !end.recorded || ((start.flags | end.flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!start.wall_ns || !end.wall_ns)
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((double)(int64_t)(end.wall_ns - start.wall_ns) / 1e6);
    return CUDA_SUCCESS;
}

/* On another card GPU time means something else, so there the caller waits. */
CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
    struct context *context;
    struct event event;
    CUresult rc = context_current(&context);
    if (rc == CUDA_SUCCESS)
        rc = copy_out(event_handle, &event);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = stream_of_handle(context, handle);
    bool same_card = stream && stream->context->card == event.context->card;
    if (same_card && event.recorded)
        stream_after(stream, event.target_ns);
    pthread_mutex_unlock(&driver.lock);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!same_card && event.recorded)
        card_wait(event.context->card, event.target_ns);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent_ptsz(CUstream handle, CUevent event, unsigned flags) {
    return cuStreamWaitEvent(own_stream(handle), event, flags);
}
