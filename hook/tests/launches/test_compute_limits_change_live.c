/* A published share holds for launches at once, and within a second for a thread that waits. */
#include "launching.h"

int main(void) {
    files_make();
    context_make(0);
    share_publish(90, 90);
    usage_of_flood(NS_PER_MS, 300 * NS_PER_MS);
    share_publish(20, 20);
    usage_of_flood(NS_PER_MS, 200 * NS_PER_MS);
    double usage = usage_of_flood(NS_PER_MS, 800 * NS_PER_MS);
    CHECK(usage > 15 && usage < 25);

    launch(300 * NS_PER_MS);
    FAKE(fake_await)(FAKE_STREAM(1));
    share_publish(100, 100); /* 1.5 s would be to be waited for */
    uint64_t begin = wall_ns();
    launch(NS_PER_MS);
    CHECK(wall_ns() - begin < NS_PER_S);
    begin = wall_ns();
    for (int i = 0; i < 1000; i++) {
        launch(10 * NS_PER_MS); /* no limit: no launch waits */
    }
    CHECK(wall_ns() - begin < 500 * NS_PER_MS);
    return 0;
}
