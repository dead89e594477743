/* The context and device of a call, as the driver says. */
#ifndef HOOK_CURRENT_CONTEXT_H
#define HOOK_CURRENT_CONTEXT_H

#include "loader/drivers.h"
#include "memory/account.h"

/* The calling thread's context. `handle` is NULL where it has none: then the driver's refusal is
 * the answer. NOT_PERMITTED where its card can't be named: there are no limits for it. */
CUresult current_context_get(struct driver *driver, struct current_context *current);
/* Whether cuInit was called: before that neither the driver nor a gate reads an argument. */
bool driver_is_initialized(struct driver *driver);
/* A gate's own copy of a struct that a request gives, for its charge and for the driver: another
 * thread may change the program's in between. NULL where there is none to read: then the driver
 * refuses. For the same reason a driver answers into a gate's own memory. */
#define READ_ONCE(driver, given)                                                                   \
    ((given) == NULL || !driver_is_initialized(driver) ? NULL : (__typeof__(*(given))[1]){*(given)})
/* A device, with no context yet. */
bool current_context_of_device(struct driver *driver, CUdevice device,
                               struct current_context *current);

#endif
