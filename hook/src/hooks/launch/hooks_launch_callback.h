/*
 * Callbacks of the program on the driver's threads. Their launches pass: a driver's thread that
 * waits would hold up the other work that it serves. A callback is wrapped so that its thread knows
 * that it runs one; a captured callback isn't, since it becomes part of a graph, runs any number of
 * times, and the program may read it back from there.
 */
#ifndef HOOK_HOOKS_LAUNCH_CALLBACK_H
#define HOOK_HOOKS_LAUNCH_CALLBACK_H

#include "loader/drivers.h"

/* Whether this thread runs a callback that the program gave the driver. */
bool launch_in_callback(void);

#endif
