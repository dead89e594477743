/*
 * A tenant's view of its cards: its share, and the rest of it. Closed without limits, for the whole
 * card is not the share. Outputs that the program left out are left to the driver.
 */
#ifndef HOOK_HOOKS_MEMORY_INFO_H
#define HOOK_HOOKS_MEMORY_INFO_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
