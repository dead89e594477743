#include "process.h"

#include <stdatomic.h>
#include <sys/mman.h>

/* Of Linux 4.14; the libc that we build for is older. */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static struct process *make(void) {
    void *memory = mmap(NULL, sizeof(struct process), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    if (madvise(memory, sizeof(struct process), MADV_WIPEONFORK) != 0) {
        munmap(memory, sizeof(struct process));
        return NULL;
    }
    return memory;
}

struct process *process_enter(void) {
    static struct process *_Atomic only;
    struct process *process = atomic_load(&only);
    if (process == NULL) {
        struct process *made = make();
        if (made == NULL) {
            return NULL;
        }
        if (atomic_compare_exchange_strong(&only, &process, made)) {
            process = made;
        } else {
            munmap(made, sizeof *made); /* another thread was first */
        }
    }
    lock_take(&process->lock);
    return process;
}

void process_leave(struct process *process) { lock_release(&process->lock); }
