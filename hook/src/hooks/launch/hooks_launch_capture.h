/*
 * Which streams are captured into graphs. Captured launches run when their graph is launched, so
 * they are neither charged nor delayed; and no capture ends under one, on another thread, for then
 * it would run at once. Open: an unknown capture costs one more call of the driver before a launch.
 */
#ifndef HOOK_HOOKS_LAUNCH_CAPTURE_H
#define HOOK_HOOKS_LAUNCH_CAPTURE_H

#include "limiter/gpu_timer.h"
#include "loader/drivers.h"

/* Whether the stream is captured, or the driver can't tell; the driver is called while a capture is
 * under way only. */
bool launch_begin_captured(struct driver *driver, const struct gpu_timer_work *work);
/* After the driver's return, where that was so: ends of captures wait for it. */
void launch_end_captured(void);

#endif
