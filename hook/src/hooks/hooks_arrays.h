/*
 * Arrays and mipmapped arrays: charged by their description before the driver is called. What the
 * driver then says they need replaces it, where it says so: cuda.h promises that for arrays without
 * memory of their own only, which aren't charged. Closed without limits.
 */
#ifndef HOOK_HOOKS_ARRAYS_H
#define HOOK_HOOKS_ARRAYS_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
