/* What the gates of one kind of launch share with another. */
#ifndef HOOK_HOOKS_LAUNCH_H
#define HOOK_HOOKS_LAUNCH_H

#include "hooks/gates.h"
#include "limiter/limiter.h"

/* A launch between the program's call and the driver's. */
struct launch {
    struct limiter_lane *lane; /* NULL: it isn't limited */
    struct gpu_timer_work work;
    struct limiter_launch limited;
};

/* Waits for the launch's turn. SUCCESS, and then launch_end with the driver's answer, or
 * NOT_PERMITTED. Without a current context, in a callback and while its stream is captured it
 * passes. */
CUresult launch_begin(struct driver *driver, const struct gpu_timer_work *work,
                      struct launch *launch);
CUresult launch_end(struct launch *launch, CUresult result);

/* Contexts are about to end: one, or all of a device where `context` is NULL. */
void launch_forget(const struct driver *driver, CUcontext context, CUdevice device);

/* Whether the stream, or one that can't be asked, is captured; no driver call while nobody
 * captures. */
bool launch_is_captured(struct driver *driver, const struct gpu_timer_work *work);
/* The same, asking the driver also where no capture was seen to begin. */
bool launch_would_be_captured(struct driver *driver, const struct gpu_timer_work *work);
/* Whether this thread runs a callback that the program gave the driver. */
bool launch_in_callback(void);

#endif
