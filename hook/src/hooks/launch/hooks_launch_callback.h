/*
 * Callbacks of the program on the driver's threads. What they launch passes: a driver's thread that
 * waits would hold up whatever else it serves. A callback is wrapped to know that its thread runs
 * one; a captured one isn't, since it becomes part of a graph, runs any number of times, and the
 * program may read it back from there.
 */
#ifndef HOOK_HOOKS_LAUNCH_CALLBACK_H
#define HOOK_HOOKS_LAUNCH_CALLBACK_H

#include "loader/drivers.h"

/* Whether this thread runs a callback that the program gave the driver. */
bool launch_in_callback(void);

#endif
