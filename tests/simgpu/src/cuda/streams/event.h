/* Events: a point in a stream, and the wall time at which the card passed it. */
#ifndef SIMGPU_EVENT_H
#define SIMGPU_EVENT_H

#include "driver.h"

struct event {
    struct event *next;
    struct context *context;
    unsigned flags;
    bool recorded;
    uint64_t target_ns;         /* GPU time of its client on its card */
    uint64_t wall_ns;           /* 0: not yet passed, or not yet looked up */
    uint64_t host_call;         /* the last host function before it: callback.c */
    unsigned long long capture; /* number of the capture in which it was last recorded, or 0 */
    struct nodes tips;          /* of the captured stream then */
};

/* The event of a handle, or NULL; driver.lock held. */
struct event *event_find(CUevent handle);

/* A copy of an event as it is now, its time stamp settled. Takes driver.lock. */
CUresult event_copy(CUevent handle, struct event *copy);

#endif
