/*
 * Virtual memory management: physical memory is charged to the card that it is made on, under any
 * current context; memory of the host isn't. Imports and multicast objects take no memory of a card
 * by themselves: the memory behind them was made by cuMemCreate, and is charged to the process that
 * made it, also while an export alone keeps it. Closed without limits.
 */
#ifndef HOOK_HOOKS_VMM_H
#define HOOK_HOOKS_VMM_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
