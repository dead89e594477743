/*
 * The fake driver's launches: a kernel is a length of time, which its handle states, so tests need
 * no set-up. Streams run at the same time; nothing else uses the card.
 */
#ifndef FAKE_LAUNCH_H
#define FAKE_LAUNCH_H

#include "loader/drivers.h"

/* A function, or a graph, that keeps the card for so long. */
#define FAKE_KERNEL(ns) ((CUfunction)(uintptr_t)((ns) + 1))
#define FAKE_GRAPH(ns) ((CUgraphExec)(uintptr_t)((ns) + 1))
/* Any number but 0 names a stream. */
#define FAKE_STREAM(number) ((CUstream)(uintptr_t)((number) * 8))

cuLaunchKernel_fn fake_launch_ungated;
unsigned long fake_launches(void);        /* that reached the driver */
unsigned long fake_captured(void);        /* of them, into graphs */
unsigned long fake_events_recorded(void); /* by any caller */
/* Calls that aren't allowed while a stream is captured, and events in captured streams. */
unsigned long fake_capture_violations(void);
/* GPU time: with at least one kernel at work. */
unsigned long long fake_busy_ns(void);
/* Is called, once, by the driver's next call that takes it: one takes it before it looks at a
 * stream or reads a struct of arguments, and then after it has answered. */
void fake_give_turn(void (*turn)(void));
void fake_take_turn(void);
void fake_fail_next_launch(CUresult result);
/* Calls of events fail from now on. */
void fake_break_events(void);

void fake_await(CUstream stream); /* until it is idle */
/* Not gated. */
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *data), void *data);

#endif
