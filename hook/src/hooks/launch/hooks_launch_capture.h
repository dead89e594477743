/*
 * Which streams are captured into graphs. Captured launches run when their graph is launched, so
 * they are neither charged nor delayed. No capture begins or ends under a call that goes by it: a
 * launch would run at once, memory be taken uncharged, or given back in the ledger alone. A
 * capture that began unseen is charged for its launches, which may wait; no event goes into it.
 */
#ifndef HOOK_HOOKS_LAUNCH_CAPTURE_H
#define HOOK_HOOKS_LAUNCH_CAPTURE_H

#include "limiter/gpu_timer.h"
#include "loader/drivers.h"

/* Between the two, which may be nested, no capture of this process begins or ends on another
 * thread: what the driver says of a stream stands. */
void captures_hold(void);
void captures_let_go(void);

/* Whether the stream is captured, or the driver's answer fails: then it is held until
 * captures_let_go. The driver is asked from the process's first capture on. */
bool launch_begin_captured(struct driver *driver, const struct gpu_timer_work *work);

#endif
