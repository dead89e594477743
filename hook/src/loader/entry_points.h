/*
 * One entry for each gate and each copy of the driver, made from symbols.def. The first copy's
 * entries are the exported ones, so that a program that is linked with the driver and one that asks
 * dlsym for it see the same address, as they would without the hook.
 */
#ifndef HOOK_ENTRY_POINTS_H
#define HOOK_ENTRY_POINTS_H

#include "loader/drivers.h"

/* The gate of copy `number` for `symbol`; NULL for a symbol that isn't gated. */
void *entry_point_address(enum symbol symbol, unsigned number);

#endif
