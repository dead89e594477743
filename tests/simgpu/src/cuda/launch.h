/* A kernel launch, before it goes to the card or into a graph. */
#ifndef SIMGPU_LAUNCH_H
#define SIMGPU_LAUNCH_H

#include "driver.h"

/* Checks a launch and returns its duration; driver.lock need not be held. */
CUresult launch_check(const CUDA_KERNEL_NODE_PARAMS *work, uint64_t *duration_ns);

/* Queues a checked launch on a stream of the context, or captures it. */
CUresult launch_queue(struct context *context, CUstream stream, const CUDA_KERNEL_NODE_PARAMS *work,
                      uint64_t duration_ns);

/* Waits while the context has LAUNCH_QUEUE launches outstanding. */
void launch_wait_for_room(struct context *context);
/* Counts one more, which ends then. driver.lock held. */
void launch_count(struct context *context, uint64_t end_ns);

/* copy.c, fill.c: do a node's copy or fill. driver.lock held. */
CUresult copy_now(CUdeviceptr to, CUdeviceptr from, uint64_t bytes);
CUresult fill_now(CUdeviceptr to, unsigned value, size_t width, size_t count);
/* Queue what takes the time of a copy or a fill on the context's card, after a point of its GPU
 * time; return the end. driver.lock held. */
uint64_t copy_queue(struct context *context, uint64_t after_ns, CUdeviceptr to, CUdeviceptr from,
                    uint64_t bytes);
uint64_t fill_queue(struct context *context, uint64_t after_ns, uint64_t bytes);

/* callback.c: a host function, to be run by the driver's thread when the card has come to the
 * target; or a callback of the older kind, which also gets its stream. driver.lock held. */
CUresult callback_queue(struct stream *stream, uint64_t target_ns, CUhostFn function, void *data);
/* Whether the host function with this number has returned; and waiting for it, or for all of a
 * context, without driver.lock. */
bool callback_done(uint64_t number);
void callback_wait(uint64_t number, const struct context *context);

/* event.c: the event is recorded at this point of the context's GPU time. driver.lock held. */
CUresult event_mark_at(CUevent event, struct context *context, uint64_t target_ns);
/* When the event is over: GPU time on the context's card, 0 on another. driver.lock held. */
uint64_t event_target(CUevent event, const struct context *context);
bool event_is(CUevent event);

#endif
