/* Stream capture: calls on streams become nodes of a graph instead of work on the card.
 *
 * driver.lock held for all but capture_check. */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "driver.h"
#include "graph.h"

struct capture {
    struct capture *next;
    unsigned long long id;
    struct graph *graph;
    struct context *context;
    const struct stream *origin;
    unsigned long thread;
    int mode;
    bool borrowed; /* the graph was there before: cuStreamBeginCaptureToGraph */
    bool invalid;
};

/* The answer to the call of entries[index] while streams capture; SUCCESS: it may go on. */
CUresult capture_check(unsigned index);

/* A potentially unsafe call: it breaks every capture that forbids it to this thread, and is itself
 * refused when there is one. */
CUresult capture_unsafe(void);

/* The answer to a call that queues work on a stream. SUCCESS: the work is for the card, or, when
 * stream->capture is set, for a node. */
CUresult capture_enter(struct stream *stream);

/* The same for a call that waits for a stream, or asks how far it is. */
CUresult capture_refuse_wait(struct stream *stream);
/* The same for a call that waits for all of a context's streams. */
CUresult capture_refuse_context(const struct context *context);

/* The stream's next node of this type, after its tips, which it replaces; NULL: no memory. */
struct node *capture_node(struct stream *stream, int type);

/* A capture under way, by its number; NULL: it ended. */
struct capture *capture_of(unsigned long long id);
void capture_invalidate(struct capture *capture);
/* A stream joins the capture of an event that it waits for. */
CUresult capture_join(struct stream *stream, struct capture *capture, const struct nodes *tips);
/* capture_memory.c: nodes for memory that a captured stream is asked for, or given back. */
CUresult capture_allocate(struct stream *stream, CUdevice device, uint64_t bytes,
                          uint64_t *address);
CUresult capture_free(struct stream *stream, uint64_t address);

/* The stream is destroyed. */
void capture_leave(struct stream *stream);

#endif
