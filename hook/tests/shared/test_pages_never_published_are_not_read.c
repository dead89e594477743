/*
 * The agent comes around to the slot that is being read, and dies before it publishes the slot: the
 * slot was never in force.
 */
#include <string.h>

#include "support.h"

static void (*before_copying)(void);

static void *copy_later(void *to, const void *from, size_t bytes) {
    if (bytes == sizeof(struct vcuda_limits_slot) && before_copying != NULL) {
        void (*once)(void) = before_copying;
        before_copying = NULL;
        once();
    }
    return memcpy(to, from, bytes);
}

/* The hook's own code under other names, with a stop before it copies. */
#define memcpy copy_later
#define shared_page_refresh stopping_refresh
#define crc32_ieee its_crc32
#include "shared/shared_page.c"
#undef memcpy

enum { NEW = 20, UNPUBLISHED = 30, LAST = 40 };

static struct vcuda_limits_body shares(uint32_t percent) {
    struct vcuda_limits_body body = limits_default();
    body.devices[0].compute_percent = percent;
    return body;
}

static void publish(uint32_t percent) {
    struct vcuda_limits_body body = shares(percent);
    limits_publish(&body);
}

static void publish_and_die_in_the_next(void) {
    publish(NEW);
    publish(UNPUBLISHED);
    limits_republish(1); /* as if the last store had not come */
}

static uint32_t share_read(struct shared_page *page) {
    CHECK(stopping_refresh(page, "limits", VCUDA_LIMITS_MAGIC));
    return page->body.limits.devices[0].compute_percent;
}

int main(void) {
    files_make();
    static struct shared_page page;
    before_copying = publish_and_die_in_the_next;
    CHECK(share_read(&page) == NEW);
    publish(LAST);
    CHECK(share_read(&page) == LAST);
    return 0;
}
