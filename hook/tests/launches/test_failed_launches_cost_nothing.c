/* A launch that the driver refuses is its answer, and isn't charged; a driver whose events fail
 * leaves the limit to the estimates, and never breaks a launch. */
#include "launching.h"

int main(void) {
    files_make();
    context_make(0);
    for (int i = 0; i < 4; i++) {
        launch(20 * NS_PER_MS);
        FAKE(fake_await)(FAKE_STREAM(1));
    }
    uint64_t begin = wall_ns();
    for (int i = 0; i < 1000; i++) {
        FAKE(fake_fail_next_launch)(719);
        CHECK(try_launch(20 * NS_PER_MS, FAKE_STREAM(1)) == 719);
    }
    CHECK(wall_ns() - begin < NS_PER_S);
    FAKE(fake_break_events)();
    for (int i = 0; i < 100; i++) {
        launch(NS_PER_US * (uint64_t)i);
    }
    return 0;
}
