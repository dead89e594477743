/*
 * What a tenant sees of its cards: its share, and what is left of it. Closed without limits: the
 * whole card would be a lie. Outputs that the program left out stay the driver's affair.
 */
#ifndef HOOK_HOOKS_MEMORY_INFO_H
#define HOOK_HOOKS_MEMORY_INFO_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
