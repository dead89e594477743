/*
 * Device memory: charged before the driver is called, returned when it fails. Without a current
 * context the driver is asked as if we weren't there: it refuses. All of these are closed.
 */
#ifndef HOOK_HOOKS_MEMORY_H
#define HOOK_HOOKS_MEMORY_H

#include "hooks/mempool_driver.h"

/* Charges memory in the calling thread's context before the driver is asked for it. Without a
 * context nothing is charged: the driver refuses. */
CUresult memory_begin(struct driver *driver, uint64_t bytes, struct charge *charge);
/* After the driver's answer. Returns it. */
CUresult memory_settle(const struct charge *charge, CUresult result, enum allocation_kind kind,
                       uint64_t handle);

/* A release: what was held goes back if the driver released it. */
#define RELEASE(name, kind, handle, ...)                                                           \
    struct held held = account_take(kind, (uint64_t)(handle));                                     \
    CUresult result = REAL(driver, name)(__VA_ARGS__);                                             \
    if (result == CUDA_SUCCESS) {                                                                  \
        account_return(&held);                                                                     \
    } else {                                                                                       \
        account_restore(&held);                                                                    \
    }                                                                                              \
    return result;

/* The same of device memory, which may have come from a pool. */
#define RELEASE_POINTER(name, pointer, ...)                                                        \
    struct pointer_release release = pointer_release_begin(pointer);                               \
    return pointer_release_end(driver, &release, REAL(driver, name)(__VA_ARGS__));

#endif
