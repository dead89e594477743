/* Requests up to 1 MiB count together, in pages of 2 MiB. */
#include "support.h"

int main(void) {
    files_make();
    context_make(0);
    CUdeviceptr first = allocate(1);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 2 * MIB);
    CUdeviceptr second = allocate(1 * MIB);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 2 * MIB);
    CUdeviceptr third = allocate(1 * MIB);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 4 * MIB);
    release(first);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 2 * MIB);
    release(second);
    release(third);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);

    CUdeviceptr many[5000];
    for (unsigned i = 0; i < 5000; i++) {
        many[i] = allocate(512);
    }
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 4 * MIB); /* 2.44 MiB */
    for (unsigned i = 0; i < 5000; i++) {
        release(many[i]);
    }
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES);
    return 0;
}
