/* The look at a descriptor that may keep memory comes before the look at the ledger: what that
 * memory gives back may find the ledger cut, and then there is none to read the rest of. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

static volatile sig_atomic_t cuts;

/* At the system call that asks for the descriptor's file, which fails. */
static void cut(int signal) {
    (void)signal;
    cuts += truncate("ledger", 0) == 0;
}

static int kept_descriptor(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = 1, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    int fd = -1;
    CHECK(CUDA(cuMemCreate)(&handle, 8 * MIB, &properties, 0) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                             0) == CUDA_SUCCESS);
    CHECK(CUDA(cuMemRelease)(handle) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES + 8 * MIB);
    return fd;
}

static void cut_at_fstat(int fd) {
    struct sock_filter filters[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)fd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filters / sizeof *filters, .filter = filters};
    CHECK(signal(SIGSYS, cut) != SIG_ERR);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(void) {
    size_t available = 0, total;
    files_make();
    context_make(0);
    cut_at_fstat(kept_descriptor());
    CHECK(CUDA(cuMemGetInfo_v2)(&available, &total) == CUDA_ERROR_NOT_PERMITTED);
    CHECK(cuts == 1);
    CHECK(available == 0);
    return 0;
}
