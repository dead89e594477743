/* Host functions: queued in streams, run one at a time by a thread of the driver's own, on which
 * CUDA calls are refused (entry.c).
 *
 * A stream's later work waits for a host function's turn, not for its return; a call that
 * synchronises waits for the return. */
#include <stdlib.h>
#include <time.h>

#include "api.h"
#include "capture.h"
#include "entry.h"
#include "launch.h"

struct call {
    struct call *next;
    uint64_t number;
    const struct context *context;
    uint32_t card;
    uint64_t target_ns;
    CUstream stream; /* only handed to a callback */
    CUhostFn function;
    CUstreamCallback callback; /* the older kind; else NULL */
    void *data;
};

/* `guard` is taken inside driver.lock. */
static struct {
    pthread_mutex_t guard;
    pthread_cond_t change;
    struct call *first, **last;
    bool started;
    uint64_t queued; /* count of all host functions: their numbers */
} calls = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, &calls.first, false, 0};

static void run(const struct call *call) {
    entry_in_callback(true);
    if (call->callback)
        call->callback(call->stream, CUDA_SUCCESS, call->data);
    else
        call->function(call->data);
    entry_in_callback(false);
}

/* The first call with its turn come. Calls of one stream come in order, as their targets do. */
static struct call *next_call(void) {
    for (struct call *at = calls.first; at; at = at->next)
        if (card_done(at->card, at->target_ns))
            return at;
    return NULL;
}

static void forget(struct call *call) {
    struct call **link = &calls.first;
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    if (!call->next)
        calls.last = link;
    free(call);
}

static void *work(void *unused) {
    static const struct timespec pause = {0, 100000}; /* between looks at the card, as polling */
    pthread_mutex_lock(&calls.guard);
    for (;;) {
        while (!calls.first)
            pthread_cond_wait(&calls.change, &calls.guard);
        struct call *call = next_call();
        pthread_mutex_unlock(&calls.guard);
        if (call)
            run(call);
        else
            nanosleep(&pause, NULL);
        pthread_mutex_lock(&calls.guard);
        if (call) {
            forget(call);
            pthread_cond_broadcast(&calls.change);
        }
    }
    return unused;
}

static bool start(void) {
    pthread_t thread;
    if (!calls.started && pthread_create(&thread, NULL, work, NULL) == 0)
        calls.started = pthread_detach(thread) == 0;
    return calls.started;
}

static CUresult queue(struct stream *stream, struct call wanted) {
    struct call *call = malloc(sizeof *call);
    if (!call)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *call = wanted;
    call->context = stream->context;
    call->card = stream->context->card;
    pthread_mutex_lock(&calls.guard);
    bool ok = start();
    if (ok) {
        stream->host_call = call->number = ++calls.queued;
        *calls.last = call;
        calls.last = &call->next;
        pthread_cond_broadcast(&calls.change);
    }
    pthread_mutex_unlock(&calls.guard);
    if (!ok)
        free(call);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult callback_queue(struct stream *stream, uint64_t target_ns, CUhostFn function, void *data) {
    return queue(stream, (struct call){.target_ns = target_ns, .function = function, .data = data});
}

/* Whether this call has returned, or, of a context, all calls so far. guard held. */
static bool is_over(uint64_t number, const struct context *context) {
    for (const struct call *at = calls.first; at; at = at->next)
        if (context ? at->context == context : at->number == number)
            return false;
    return true;
}

bool callback_done(uint64_t number) {
    pthread_mutex_lock(&calls.guard);
    bool done = is_over(number, NULL);
    pthread_mutex_unlock(&calls.guard);
    return done;
}

void callback_wait(uint64_t number, const struct context *context) {
    pthread_mutex_lock(&calls.guard);
    while (!is_over(number, context))
        pthread_cond_wait(&calls.change, &calls.guard);
    pthread_mutex_unlock(&calls.guard);
}

static CUresult capture(struct stream *stream, CUhostFn function, void *data) {
    struct node *node = capture_node(stream, NODE_HOST);
    if (node)
        node->host = (CUDA_HOST_NODE_PARAMS){function, data};
    return node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = stream_of_handle(context, handle);
    rc = stream ? capture_enter(stream) : CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS && stream->capture)
        rc = capture(stream, function, data);
    else if (rc == CUDA_SUCCESS)
        rc = callback_queue(stream, stream_queue(stream, 0), function, data);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* Not to be captured: the documentation sends capturing programs to cuLaunchHostFunc. */
CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *data,
                             unsigned flags) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!callback || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct stream *stream = stream_of_handle(context, handle);
    rc = stream ? capture_enter(stream) : CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS && stream->capture)
        rc = capture_refuse_wait(stream);
    else if (rc == CUDA_SUCCESS)
        rc = queue(stream, (struct call){.target_ns = stream_queue(stream, 0),
                                         .stream = handle,
                                         .callback = callback,
                                         .data = data});
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data, unsigned sync_mode) {
    (void)sync_mode; /* how the card's side waits: no difference here */
    return cuLaunchHostFunc(stream, function, data);
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data) {
    return cuLaunchHostFunc(own_stream(stream), function, data);
}
CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void *data, unsigned mode) {
    return cuLaunchHostFunc_v2(own_stream(stream), function, data, mode);
}
CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *data,
                                  unsigned flags) {
    return cuStreamAddCallback(own_stream(stream), callback, data, flags);
}
