/*
 * Device memory: charged before the driver is called, returned when the call fails. Without a
 * current context no charge is made, and the driver refuses. All of these are closed.
 */
#ifndef HOOK_HOOKS_MEMORY_H
#define HOOK_HOOKS_MEMORY_H

#include "hooks/mempool_driver.h"

/* Charges memory in the calling thread's context before the driver is asked for it. Without a
 * context no charge is made: the driver refuses. */
CUresult memory_begin(struct driver *driver, uint64_t bytes, struct charge *charge);
#endif
