/*
 * The meter's own calls of the driver: its real functions, never gates. No lock is held during any
 * of them, and while they run the thread's capture mode is relaxed: whoever captures a stream at
 * the same time mustn't notice (CUDA driver API, cuThreadExchangeStreamCaptureMode).
 */
#ifndef HOOK_GPU_TIMER_EVENTS_H
#define HOOK_GPU_TIMER_EVENTS_H

#include "limiter/gpu_timer.h"
#include "shared/sys.h"

/* Before the launch: ends what is stale on its stream, begins what is due. */
void meter_events_before(struct meter *meter, struct meter_keys *keys, struct lock *lock,
                         const struct meter_work *work, struct meter_turn *turn);
/* After it: ends the pair whose last launch it was. */
void meter_events_after(struct meter *meter, struct meter_keys *keys, struct lock *lock,
                        const struct meter_work *work, const struct meter_turn *turn);
/* Looks which pairs have passed. */
struct meter_bill meter_events_poll(struct meter *meter, struct meter_keys *keys, struct lock *lock,
                                    struct meter_company company);

#endif
