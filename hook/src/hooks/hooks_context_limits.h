/* Those limits of a context that set memory aside. Closed without limits. */
#ifndef HOOK_HOOKS_CONTEXT_LIMITS_H
#define HOOK_HOOKS_CONTEXT_LIMITS_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
