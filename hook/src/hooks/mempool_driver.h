/* Asks the driver for the memory that its pools hold, and for the memory that a free gives back. */
#ifndef HOOK_MEMPOOL_DRIVER_H
#define HOOK_MEMPOOL_DRIVER_H

#include "loader/drivers.h"
#include "memory/mempool_account.h"

/* Asks for the memory of one pool, until the answer is in time, and charges it. */
enum mempool_outcome mempool_driver_query(struct driver *driver, uint32_t number,
                                          const struct mempool_charge *charge, bool *gave_back);
/* Has the driver give back the unused memory of one pool, and asks. True where memory went back. */
bool mempool_driver_trim(struct driver *driver, uint32_t number);

/* Asks about all pools of this driver. Free of cost in a process without pools. */
void mempool_driver_query_all(struct driver *driver);
/* Has all of them give back their unused memory, before a request is refused. True where memory
 * went back. */
bool mempool_driver_reclaim(struct driver *driver);

/* A device was reset. */
void mempool_driver_device_reset(struct driver *driver, CUdevice device);

/* A release of device memory, of any origin. */
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
