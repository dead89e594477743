/* Asking the driver what its reserves hold, and what a free gives back to them. */
#ifndef HOOK_MEMPOOL_DRIVER_H
#define HOOK_MEMPOOL_DRIVER_H

#include "loader/drivers.h"
#include "memory/mempool_account.h"

/* Asks what one holds, until the answer is in time, and charges it. */
enum reserve_outcome reserve_ask(struct driver *driver, uint32_t number,
                                 const struct reserve_charge *charge, bool *gave_back);
/* Has the driver give back what one holds unused, and asks. True where something went back. */
bool reserve_trim(struct driver *driver, uint32_t number);

/* Asks about all of this driver's. Costs nothing in a process that has none. */
void reserves_ask(struct driver *driver);
/* Has all of them give back what they hold unused: before a request is refused. True where
 * something went back. */
bool reserves_reclaim(struct driver *driver);

/* A device was reset. */
void reserves_forget(struct driver *driver, CUdevice device);

/* A release of device memory, wherever it came from. */
struct freeing {
    CUdeviceptr pointer;
    struct held held;
    uint32_t reserve;
};
struct freeing freeing_begin(CUdeviceptr pointer);
/* Returns the driver's answer. */
CUresult freeing_end(struct driver *driver, const struct freeing *freeing, CUresult result);

#endif
