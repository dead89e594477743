/* A process that becomes another program holds no memory of the card any more. */
#include <unistd.h>

#include "support.h"

static int to_cat[2], from_cat[2];

static void hold_and_exec(void) {
    context_make(0);
    allocate(300 * MIB);
    CHECK(dup2(to_cat[0], STDIN_FILENO) == STDIN_FILENO);
    CHECK(dup2(from_cat[1], STDOUT_FILENO) == STDOUT_FILENO);
    close(to_cat[1]);
    execl("/bin/cat", "cat", (char *)NULL);
    _Exit(1);
}

int main(void) {
    files_make();
    CHECK(pipe(to_cat) == 0 && pipe(from_cat) == 0);
    pid_t child = start_child(hold_and_exec);
    tell(to_cat);
    await(from_cat); /* cat runs: the kernel has closed what exec closes */
    context_make(0);
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    close(to_cat[1]);
    CHECK(wait_child(child) == 0);
    return 0;
}
