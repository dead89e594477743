/*
 * Contexts occupy the card. They are charged before they are made, and with a context goes what
 * was allocated in it: the driver frees it without a call. What it does with pools, it says itself.
 * A green context counts as one of its own, beside the primary one that it retains. Closed without
 * limits.
 */
#ifndef HOOK_HOOKS_CONTEXT_H
#define HOOK_HOOKS_CONTEXT_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
