/* Asking the driver what its pools hold, and what a free gives back to them. */
#ifndef HOOK_MEMPOOL_DRIVER_H
#define HOOK_MEMPOOL_DRIVER_H

#include "loader/drivers.h"
#include "memory/mempool_account.h"

/* Asks what one holds, until the answer is in time, and charges it. */
enum mempool_outcome mempool_driver_query(struct driver *driver, uint32_t number,
                                          const struct mempool_charge *charge, bool *gave_back);
/* Has the driver give back what one holds unused, and asks. True where something went back. */
bool mempool_driver_trim(struct driver *driver, uint32_t number);

/* Asks about all of this driver's. Costs nothing in a process that has none. */
void mempool_driver_query_all(struct driver *driver);
/* Has all of them give back what they hold unused: before a request is refused. True where
 * something went back. */
bool mempool_driver_reclaim(struct driver *driver);

/* A device was reset. */
void mempool_driver_device_reset(struct driver *driver, CUdevice device);

/* A release of device memory, wherever it came from. */
struct pointer_release {
    CUdeviceptr pointer;
    struct account_release account;
    uint32_t mempool;
};
struct pointer_release pointer_release_begin(CUdeviceptr pointer);
/* Returns the driver's answer. */
CUresult pointer_release_end(struct driver *driver, const struct pointer_release *release,
                             CUresult result);

#endif
