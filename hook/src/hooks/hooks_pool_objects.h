/*
 * Pools themselves, frees to them, and the calls at which the driver gives back the memory that
 * they hold beyond their threshold. Attributes aren't gated: they tell of the process's own pools,
 * which never hold more than its share.
 */
#ifndef HOOK_HOOKS_POOL_OBJECTS_H
#define HOOK_HOOKS_POOL_OBJECTS_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
