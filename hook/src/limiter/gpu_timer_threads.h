/*
 * Several threads that launch on one stream. From its charge until the driver returns, a launch of
 * one is under way, and those of the others may come before or after it: into a pair of events too,
 * which then says how long they took together.
 */
#ifndef HOOK_GPU_TIMER_THREADS_H
#define HOOK_GPU_TIMER_THREADS_H

#include "limiter/gpu_timer.h"

/* Of gpu_timer_launch: the launch is under way from now on. */
void gpu_timer_set_out(struct gpu_timer *timer, struct gpu_timer_launch *launch);
/* The driver has returned, and events are recorded: needs no lock. */
void gpu_timer_launched(struct gpu_timer *timer, const struct gpu_timer_launch *launch);
/* Whether a pair recorded on the launch's stream waits for the card, as far as was looked: then the
 * stream hasn't run dry since. */
bool gpu_timer_waits(const struct gpu_timer *timer, const struct gpu_timer_launch *launch);
/* The stream was busy all the time that the estimates took for idle. */
void gpu_timer_was_busy(struct gpu_timer *timer, const struct gpu_timer_launch *launch);

#endif
