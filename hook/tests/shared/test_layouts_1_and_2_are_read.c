/* Files of layout 1 serve as before, and nothing is written where it reserves bytes. In a ledger of
 * layout 2 a process enters the generations of the pages that it has applied. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static const char *const files[] = {"limits", "activity", "ledger"};

static void set_layout(uint32_t layout) {
    for (unsigned i = 0; i < 3; i++) {
        int fd = open(files[i], O_WRONLY);
        CHECK(fd >= 0 && pwrite(fd, &layout, sizeof layout, 8) == sizeof layout);
        close(fd);
    }
}

static const struct vcuda_ledger_slot *own_slot(void) {
    const struct vcuda_ledger_file *file = ledger_map();
    for (unsigned i = 0; i < VCUDA_LEDGER_SLOTS; i++) {
        if (file->slots[i].pid == (uint32_t)getpid()) {
            return &file->slots[i];
        }
    }
    CHECK(!"no slot is ours");
    return NULL;
}

static void use_share(void) {
    context_make(0);
    CHECK(try_allocate(SHARE_BYTES) == CUDA_ERROR_OUT_OF_MEMORY);
    release(allocate(SHARE_BYTES - CONTEXT_BYTES));
}

static void in_layout_1(void) {
    use_share();
    struct vcuda_limits_body body = limits_default();
    body.devices[0].memory_bytes /= 2;
    limits_publish(&body);
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_ERROR_OUT_OF_MEMORY);
    const struct vcuda_ledger_slot *slot = own_slot();
    CHECK(slot->limits_generation == 0 && slot->activity_generation == 0);
    CHECK(slot->cards[0].open_ns == 0);
}

static void in_layout_2(void) {
    context_make(0);
    const struct vcuda_ledger_slot *slot = own_slot();
    CHECK(slot->limits_generation == 1 && slot->activity_generation == 1);
    struct vcuda_limits_body body = limits_default();
    limits_publish(&body);
    limits_publish(&body);
    CHECK(slot->limits_generation == 1); /* published, and not applied */
    activity_publish(MIB);
    release(allocate(MIB));
    CHECK(slot->limits_generation == 3 && slot->activity_generation == 2);
}

/* A slot's former owner has left noise there. */
static void in_a_used_slot(void) {
    struct vcuda_ledger_file *file = ledger_map();
    for (unsigned i = 0; i < VCUDA_LEDGER_SLOTS; i++) {
        file->slots[i].limits_generation = 77;
        file->slots[i].cards[1].open_ns = 78;
    }
    CHECK(unlink("activity") == 0);
    context_make(0);
    const struct vcuda_ledger_slot *slot = own_slot();
    CHECK(slot->limits_generation == 1 && slot->activity_generation == 0);
    CHECK(slot->cards[1].open_ns == 0);
}

int main(void) {
    files_make();
    set_layout(1);
    CHECK(in_child(in_layout_1) == 0);
    unlink("limits");
    files_make();
    CHECK(in_child(in_layout_2) == 0);
    files_make();
    CHECK(in_child(in_a_used_slot) == 0);
    return 0;
}
