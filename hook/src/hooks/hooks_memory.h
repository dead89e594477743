/*
 * Device memory: charged before the driver is called, returned when it fails. Without a current
 * context nothing is charged, and the driver refuses. All of these are closed.
 */
#ifndef HOOK_HOOKS_MEMORY_H
#define HOOK_HOOKS_MEMORY_H

#include "hooks/mempool_driver.h"

/* Charges memory in the calling thread's context before the driver is asked for it. Without a
 * context nothing is charged: the driver refuses. */
CUresult memory_begin(struct driver *driver, uint64_t bytes, struct charge *charge);
#endif
