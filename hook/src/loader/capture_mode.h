/* The thread's capture mode is relaxed while the hook calls the driver for itself: a thread that
 * captures a stream at the same time mustn't notice (CUDA driver API,
 * cuThreadExchangeStreamCaptureMode). */
#ifndef HOOK_CAPTURE_MODE_H
#define HOOK_CAPTURE_MODE_H

#include "loader/drivers.h"

enum { CAPTURE_MODE_RELAXED = 2 };

/* Sets the mode and returns the one before, to be set again. Drivers before 10.1 have one mode. */
static inline int capture_mode_exchange(struct driver *driver, int mode) {
    cuThreadExchangeStreamCaptureMode_fn *exchange =
        REAL(driver, cuThreadExchangeStreamCaptureMode);
    if (exchange != NULL) {
        exchange(&mode);
    }
    return mode;
}

#endif
