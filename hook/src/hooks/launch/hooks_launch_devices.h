/*
 * One call that launches on several cards: each part is charged to its card and measured on its
 * stream, as if it were a launch of its own in its stream's context.
 */
#ifndef HOOK_HOOKS_LAUNCH_DEVICES_H
#define HOOK_HOOKS_LAUNCH_DEVICES_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
