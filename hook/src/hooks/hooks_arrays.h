/*
 * Arrays and mipmapped arrays: charged by their description before the driver is called. The
 * driver's size then replaces it, where the driver tells one: cuda.h promises that for arrays
 * without memory of their own only, which aren't charged. Closed without limits.
 */
#ifndef HOOK_HOOKS_ARRAYS_H
#define HOOK_HOOKS_ARRAYS_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
