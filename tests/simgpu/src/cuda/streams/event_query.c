/* Queries of events, and waits for them. */
#include "event.h"

#include "api.h"
#include "capture.h"
#include "launch.h"

/* An event of a capture cannot be asked or waited for: that breaks its capture. */
static CUresult refuse_captured(const struct event *event) {
    if (!event->capture)
        return CUDA_SUCCESS;
    struct capture *capture = capture_of(event->capture);
    if (capture)
        capture_invalidate(capture);
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* For calls that a capture may forbid. */
static CUresult look(CUevent handle, struct event *copy) {
    CUresult rc = event_copy(handle, copy);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    rc = refuse_captured(copy);
    if (rc == CUDA_SUCCESS)
        rc = capture_unsafe();
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

static bool is_over(const struct event *event) {
    return !event->recorded || (event->wall_ns && callback_done(event->host_call));
}

/* An event that was never recorded counts as done. */
CUresult cuEventQuery(CUevent handle) {
    struct event event;
    CUresult rc = look(handle, &event);
    return rc == CUDA_SUCCESS && !is_over(&event) ? CUDA_ERROR_NOT_READY : rc;
}

CUresult cuEventSynchronize(CUevent handle) {
    struct event event;
    CUresult rc = look(handle, &event);
    if (rc == CUDA_SUCCESS && event.recorded && !event.wall_ns) {
        card_wait(event.context->card, event.target_ns);
        rc = event_copy(handle, &event); /* settles its time stamp */
    }
    if (rc == CUDA_SUCCESS && event.recorded) {
        callback_wait(event.host_call, NULL);
        pools_synchronized(event.context->card);
    }
    return rc;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start_handle, CUevent end_handle) {
    struct event start, end;
    CUresult rc = event_copy(start_handle, &start);
    if (rc == CUDA_SUCCESS)
        rc = event_copy(end_handle, &end);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!milliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (start.capture || end.capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!start.recorded || !end.recorded || ((start.flags | end.flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!is_over(&start) || !is_over(&end))
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((double)(int64_t)(end.wall_ns - start.wall_ns) / 1e6);
    return CUDA_SUCCESS;
}

/* The 12.8 form reads the same clock. */
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime(milliseconds, start, end);
}

/* A capturing stream may wait for captured events of its own capture, by a node for others when
 * told so, and else not at all; a stream that waits for a captured event joins its capture. */
static CUresult wait_captured(struct stream *stream, struct event *event, bool external) {
    if (event->capture) {
        struct capture *capture = capture_of(event->capture);
        return capture ? capture_join(stream, capture, &event->tips) : CUDA_ERROR_CAPTURED_EVENT;
    }
    if (!external) {
        capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    struct node *node = capture_node(stream, NODE_WAIT_EVENT);
    if (node)
        node->event = event;
    return node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Another card has a GPU time of its own, so there the caller waits. */
static CUresult wait_for(struct stream *stream, struct event *event, bool *elsewhere) {
    CUresult rc = capture_enter(stream);
    if (rc != CUDA_SUCCESS || !event->recorded)
        return rc;
    *elsewhere = stream->context->card != event->context->card;
    if (!*elsewhere)
        stream_after(stream, event->target_ns);
    if (stream->host_call < event->host_call)
        stream->host_call = event->host_call;
    return rc;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
    struct context *context;
    struct event copy;
    bool elsewhere = false;
    CUresult rc = context_current(&context);
    if (rc == CUDA_SUCCESS)
        rc = event_copy(event_handle, &copy);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = stream_of_handle(context, handle);
    struct event *event = event_find(event_handle);
    if (!stream || !event)
        rc = CUDA_ERROR_INVALID_HANDLE;
    else if (stream->capture || event->capture)
        rc = wait_captured(stream, event, flags & CU_EVENT_EXTERNAL);
    else
        rc = wait_for(stream, event, &elsewhere);
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS && elsewhere)
        card_wait(copy.context->card, copy.target_ns);
    return rc;
}

CUresult cuStreamWaitEvent_ptsz(CUstream handle, CUevent event, unsigned flags) {
    return cuStreamWaitEvent(own_stream(handle), event, flags);
}
