/*
 * Several threads that launch on one stream. From its charge until the driver returns, a launch of
 * one is under way, and those of the others may come before or after it: into a pair of events too,
 * which then tells their time together.
 */
#ifndef HOOK_GPU_TIMER_THREADS_H
#define HOOK_GPU_TIMER_THREADS_H

#include "limiter/gpu_timer.h"

/* For gpu_timer_launch: the launch is under way from now on. */
void gpu_timer_set_out(struct gpu_timer *timer, struct gpu_timer_launch *launch);
/* The driver has returned, and events are recorded: needs no lock. */
void gpu_timer_launched(struct gpu_timer *timer, const struct gpu_timer_launch *launch);
/* Whether a pair recorded on the launch's stream waited for the card at the last look: then the
 * stream has had work since. */
bool gpu_timer_waits(const struct gpu_timer *timer, const struct gpu_timer_launch *launch);
/* The stream was busy in all the time that was idle by the estimates. */
void gpu_timer_was_busy(struct gpu_timer *timer, const struct gpu_timer_launch *launch);

#endif
