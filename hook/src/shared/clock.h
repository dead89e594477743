/*
 * Time and waiting, the only places where the limiter touches either: the simulation links another
 * clock.c, with virtual time.
 */
#ifndef HOOK_CLOCK_H
#define HOOK_CLOCK_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

uint64_t clock_now(void);        /* CLOCK_MONOTONIC, ns */
uint64_t clock_now_coarse(void); /* the same up to a timer tick behind, at a quarter of the cost */
uint64_t clock_wall_us(void);    /* since 1970, for display */
/* May return early, by a signal. Is no cancellation point. */
void clock_sleep_until(uint64_t ns);

#endif
