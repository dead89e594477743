/* What the gates of one family share with another. */
#ifndef HOOK_GATES_H
#define HOOK_GATES_H

#include "account.h"
#include "drivers.h"

/* The calling thread's context. `handle` is NULL where it has none: then the driver's own answer,
 * a refusal, is right. NOT_PERMITTED where its card can't be named: there are no limits for it. */
CUresult seat_current(struct driver *driver, struct seat *seat);
/* A device, with no context yet. */
bool seat_device(struct driver *driver, CUdevice device, struct seat *seat);

#endif
