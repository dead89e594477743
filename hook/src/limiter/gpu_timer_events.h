/*
 * The timer's own calls of the driver: its real functions, never gates. No lock is held during any
 * of them, and while they run the thread's capture mode is relaxed: a thread that captures a stream
 * at the same time mustn't notice (CUDA driver API, cuThreadExchangeStreamCaptureMode).
 */
#ifndef HOOK_GPU_TIMER_EVENTS_H
#define HOOK_GPU_TIMER_EVENTS_H

#include "limiter/gpu_timer.h"
#include "shared/sys.h"

/* No event goes into a capture: it would become part of the program's graph. A stream that refuses
 * the question (the legacy one while another captures) counts as captured. */
bool gpu_timer_events_may_record(struct driver *driver, const struct gpu_timer_work *work);
/* Before the launch: the first event of its pair. */
void gpu_timer_events_before(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                             struct lock *lock, const struct gpu_timer_work *work,
                             struct gpu_timer_launch *launch);
/* After the launch: the second event. */
void gpu_timer_events_after(struct gpu_timer *timer, struct gpu_timer_keys *keys, struct lock *lock,
                            const struct gpu_timer_work *work,
                            const struct gpu_timer_launch *launch);
/* Looks for pairs that have passed. */
struct gpu_timer_bill gpu_timer_events_poll(struct gpu_timer *timer, struct gpu_timer_keys *keys,
                                            struct lock *lock, struct gpu_timer_sharing sharing);

#endif
