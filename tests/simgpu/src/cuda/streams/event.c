/* Events: a point in a stream, and the wall time at which the card passed it. */
#include <stdlib.h>

#include "api.h"
#include "capture.h"
#include "event.h"
#include "launch.h"

static struct event **find_link(CUevent handle) {
    for (struct context *context = driver.contexts; context; context = context->next)
        for (struct event **link = &context->events; *link; link = &(*link)->next)
            if (*link == handle)
                return link;
    return NULL;
}

static void free_event(struct event *event) {
    nodes_clear(&event->tips);
    free(event);
}

struct event *event_find(CUevent handle) {
    struct event **link = handle ? find_link(handle) : NULL;
    return link ? *link : NULL;
}

/* Time stamps are multiples of the clock's tick. */
static uint64_t stamp(uint64_t wall_ns) {
    uint64_t tick = driver.state->timing.event_tick_ns;
    return tick > 1 ? wall_ns - wall_ns % tick : wall_ns;
}

/* The time line remembers a client's last turns only, so passed events are looked up early. */
static void settle(struct event *event) {
    uint32_t card = event->context->card;
    if (!event->recorded || event->wall_ns)
        return;
    if (driver.state->clients[driver.client].use[card].progress_ns >= event->target_ns)
        event->wall_ns =
            stamp(sim_timeline_wall_ns(driver.state, driver.client, card, event->target_ns));
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
        free_event(handle);
    }
    pthread_mutex_unlock(&driver.lock);
    return link ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventDestroy(CUevent handle) { return cuEventDestroy_v2(handle); }

void events_drop(struct context *context) {
    while (context->events) {
        struct event *next = context->events->next;
        free_event(context->events);
        context->events = next;
    }
}

bool event_is(CUevent handle) { return event_find(handle) != NULL; }

/* Without a cost of recording, an idle stream has passed the point already. */
static void mark(struct event *event, uint64_t target_ns) {
    struct sim_state *state = driver.state;
    event->capture = 0;
    nodes_clear(&event->tips);
    event->target_ns = target_ns;
    event->recorded = true;
    event->wall_ns = 0;
    sim_lock(state);
    if (state->clients[driver.client].use[event->context->card].progress_ns >= target_ns)
        event->wall_ns = stamp(sim_now_ns());
    sim_unlock(state);
}

CUresult event_mark_at(CUevent handle, struct context *context, uint64_t target_ns) {
    struct event *event = event_find(handle);
    if (!event || event->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    mark(event, target_ns);
    return CUDA_SUCCESS;
}

uint64_t event_target(CUevent handle, const struct context *context) {
    const struct event *event = event_find(handle);
    bool here = event && event->recorded && event->context->card == context->card;
    return here ? event->target_ns : 0;
}

/* In a capture: as a node only when a later run shall record it, else as a mark for joins. */
static CUresult record_captured(struct event *event, struct stream *stream, bool external) {
    if (external) {
        struct node *node = capture_node(stream, NODE_EVENT_RECORD);
        if (node)
            node->event = event;
        return node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!nodes_copy(&event->tips, &stream->tips))
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->capture = stream->capture->id;
    event->recorded = false;
    return CUDA_SUCCESS;
}

static CUresult record(CUevent handle, CUstream stream_handle, bool external) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct event *event = event_find(handle);
    struct stream *stream = event ? stream_of_handle(context, stream_handle) : NULL;
    if (!stream || stream->context != event->context)
        rc = CUDA_ERROR_INVALID_HANDLE;
    else
        rc = capture_enter(stream);
    if (rc == CUDA_SUCCESS && stream->capture) {
        rc = record_captured(event, stream, external);
    } else if (rc == CUDA_SUCCESS) {
        mark(event, stream_queue(stream, driver.state->timing.event_ns));
        event->host_call = stream->host_call;
    }
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return record(event, stream, false); }

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
    return record(event, own_stream(stream), false);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    return flags <= 1 ? record(event, stream, flags & CU_EVENT_EXTERNAL) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
    return cuEventRecordWithFlags(event, own_stream(stream), flags);
}

CUresult event_copy(CUevent handle, struct event *copy) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct event *event = event_find(handle);
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
