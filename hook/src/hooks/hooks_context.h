/*
 * Contexts occupy the card. They are charged before they are made. The allocations of a context go
 * with it: the driver frees them without a call, and tells itself what its pools hold. A green
 * context counts as one of its own, beside the primary one that it retains. Closed without limits.
 */
#ifndef HOOK_HOOKS_CONTEXT_H
#define HOOK_HOOKS_CONTEXT_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
