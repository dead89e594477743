/* Launches into captures, and outside of them. */
#ifndef CAPTURING_H
#define CAPTURING_H

#include "launching.h"

/* Ten launches into a capture, which are neither measured nor held back. */
static inline void expect_captured(uint64_t ns, CUstream stream) {
    unsigned long before = FAKE(fake_captured)();
    uint64_t begun = wall_ns();
    for (int i = 0; i < 10; i++) {
        CHECK(try_launch(ns, stream) == CUDA_SUCCESS);
    }
    CHECK(wall_ns() - begun < 200 * NS_PER_MS);
    CHECK(FAKE(fake_captured)() == before + 10);
    CHECK(FAKE(fake_capture_violations)() == 0);
}

static inline void expect_measured(void) {
    unsigned long before = FAKE(fake_events_recorded)();
    for (uint64_t ns = NS_PER_US; FAKE(fake_events_recorded)() == before; ns += NS_PER_US) {
        launch(ns); /* a length that isn't known is measured */
    }
}

#endif
