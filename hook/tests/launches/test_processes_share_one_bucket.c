/* Three processes of a container have its share of GPU time together, in any order of their start;
 * a child that launches in its parent's context has no share of its own. */
#include <unistd.h>

#include "launching.h"

static uint64_t begin;

static void flood(void) {
    while (wall_ns() - begin < 2 * NS_PER_S) {
        launch(500 * NS_PER_US);
    }
    _Exit((int)(FAKE(fake_busy_ns)() / (20 * NS_PER_MS))); /* percent of the two seconds */
}

static void start_and_flood(void) {
    context_make(0);
    flood();
}

int main(void) {
    files_make();
    begin = wall_ns();
    pid_t first = start_child(start_and_flood), second = start_child(start_and_flood);
    context_make(0);
    launch(NS_PER_MS); /* the child doesn't inherit requests under way */
    pid_t third = start_child(flood);
    int sum = wait_child(first) + wait_child(second) + wait_child(third);
    printf("%d %% in three processes\n", sum);
    CHECK(sum > 40 && sum < 60); /* 50, and what each may do before it is measured */
    return 0;
}
