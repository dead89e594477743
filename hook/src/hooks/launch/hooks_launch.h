/*
 * Kernel launches: each is charged and waits as the limiter says before the driver is called.
 * Closed without limits.
 */
#ifndef HOOK_HOOKS_LAUNCH_H
#define HOOK_HOOKS_LAUNCH_H

#include "limiter/limiter.h"

/* A launch between the program's call and the driver's. */
struct launch {
    struct limiter_context *context; /* NULL: the launch isn't limited */
    bool captured;
    struct gpu_timer_work work;
    struct limiter_launch limiter;
};

/* Waits as the limiter says. SUCCESS, and then launch_end with the driver's answer, or
 * NOT_PERMITTED. Without a current context and while its stream is captured a launch passes. */
CUresult launch_begin(struct driver *driver, const struct gpu_timer_work *work,
                      struct launch *launch);
CUresult launch_end(struct launch *launch, CUresult result);

/* Settles launches that are over: of one context, or of all of a device where `context` is NULL. */
void launch_settle(const struct driver *driver, CUcontext context, CUdevice device);
/* The same for the calling thread's context, after a call that has waited for its work. */
void launch_settle_current(struct driver *driver);
/* Contexts have ended: one, or all of a device where `context` is NULL. */
void launch_forget(const struct driver *driver, CUcontext context, CUdevice device);

#endif
