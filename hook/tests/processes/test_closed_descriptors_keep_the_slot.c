/* A program that closes every descriptor, as daemons do, keeps its slot, which needs no
 * descriptor. */
#include <unistd.h>

#include "support.h"

static void try_to_take_the_rest(void) {
    context_make(0);
    CHECK(try_allocate(300 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
}

int main(void) {
    files_make();
    context_make(0);
    CUdeviceptr pointer = allocate(300 * MIB);
    for (int fd = 3; fd < 64; fd++) {
        close(fd);
    }
    CHECK(in_child(try_to_take_the_rest) == 0);
    CHECK(ledger_sum_bytes() >= CONTEXT_BYTES + 300 * MIB);
    release(pointer);
    return 0;
}
