/* The place of a pool's memory. A pool that was made by an unknown call is found by its device. */
#ifndef HOOK_POOL_LOCATION_H
#define HOOK_POOL_LOCATION_H

#include "memory/account.h"

void pool_location_put(CUmemoryPool pool, const CUmemLocation *location);
bool pool_location_find(CUmemoryPool pool, CUmemLocation *location);
void pool_location_drop(CUmemoryPool pool);

#endif
