/* An elastic share uses idle time while the agent's page allows it, and no longer than the page is
 * fresh. */
#include "launching.h"

static void page(uint32_t allowed) {
    struct vcuda_activity_body body = {.sampled_ns = wall_ns(), .card_count = 1};
    body.cards[0].uuid[15] = FAKE_FIRST_UUID_BYTE;
    body.cards[0].burst_allowed = allowed;
    body.cards[0].tenants_wanting = allowed ? 1 : 2;
    activity_publish_body(&body);
}

int main(void) {
    files_make();
    context_make(0);
    share_publish(30, 90);
    usage_of_flood(500 * NS_PER_US, 200 * NS_PER_MS);
    double usage = usage_of_flood(500 * NS_PER_US, 600 * NS_PER_MS);
    CHECK(usage > 25 && usage < 35); /* no page yet */
    page(1);
    usage_of_flood(500 * NS_PER_US, 100 * NS_PER_MS);
    usage = usage_of_flood(500 * NS_PER_US, 500 * NS_PER_MS);
    CHECK(usage > 85 && usage < 95);
    page(0);
    usage_of_flood(500 * NS_PER_US, 150 * NS_PER_MS);
    usage = usage_of_flood(500 * NS_PER_US, 500 * NS_PER_MS);
    CHECK(usage > 25 && usage < 35);
    page(1);
    usage_of_flood(500 * NS_PER_US, 1100 * NS_PER_MS); /* no agent refreshes it */
    usage = usage_of_flood(500 * NS_PER_US, 500 * NS_PER_MS);
    CHECK(usage > 25 && usage < 35);
    return 0;
}
