/*
 * Which streams are captured into graphs. Captured launches run when their graph is launched, so
 * they are neither charged nor delayed. Open: what can't be known about a capture costs a question
 * to the driver before launches, no more.
 */
#ifndef HOOK_HOOKS_LAUNCH_CAPTURE_H
#define HOOK_HOOKS_LAUNCH_CAPTURE_H

#include "limiter/gpu_timer.h"
#include "loader/drivers.h"

/* Whether the stream, or one that can't be asked, is captured; no driver call while nobody
 * captures. */
bool launch_is_captured(struct driver *driver, const struct gpu_timer_work *work);
/* The same, asking the driver also where no capture was seen to begin. */
bool launch_would_be_captured(struct driver *driver, const struct gpu_timer_work *work);

#endif
