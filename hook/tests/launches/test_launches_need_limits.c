/* Without limits no launch is made; without a ledger, on_error decides. The driver answers for a
 * missing context. */
#include <unistd.h>

#include "launching.h"

static void without_limits(void) {
    CHECK(truncate("limits", 0) == 0);
    FAKE(fake_context_made_privately)(0);
    CHECK(try_launch(NS_PER_US, NULL) == CUDA_ERROR_NOT_PERMITTED);
    CHECK(FAKE(fake_launches)() == 0);
}

static void without_a_ledger(void) {
    struct vcuda_limits_body body = limits_default();
    CHECK(truncate("ledger", 0) == 0);
    limits_write(&body);
    FAKE(fake_context_made_privately)(0);
    CHECK(try_launch(NS_PER_US, NULL) == CUDA_ERROR_NOT_PERMITTED);
    body.on_error = VCUDA_ON_ERROR_OPEN;
    limits_publish(&body);
    for (int i = 0; i < 1000; i++) {
        CHECK(try_launch(NS_PER_S, NULL) == CUDA_SUCCESS);
    }
}

static void without_a_context(void) {
    CHECK(try_launch(NS_PER_US, NULL) == 201);
    CHECK(FAKE(fake_launches)() == 1);
}

static void with_a_ledger_that_is_cut(void) {
    struct vcuda_limits_body body = limits_default();
    body.on_error = VCUDA_ON_ERROR_OPEN;
    limits_publish(&body);
    context_make(0);
    for (int i = 0; i < 2000; i++) {
        if (i == 1000) {
            CHECK(truncate("ledger", 0) == 0);
        }
        CHECK(try_launch(NS_PER_US, NULL) == CUDA_SUCCESS);
    }
    usleep(50000);
    CHECK(try_launch(NS_PER_US, NULL) == CUDA_SUCCESS);
}

int main(void) {
    files_make();
    CHECK(in_child(without_a_context) == 0);
    CHECK(in_child(with_a_ledger_that_is_cut) == 0);
    files_make();
    CHECK(in_child(without_a_ledger) == 0);
    CHECK(in_child(without_limits) == 0);
    return 0;
}
