#include "memory/process.h"

#include <stdatomic.h>
#include <sys/mman.h>

/* Of Linux 4.14; the libc that we build for is older. */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static void *make(size_t bytes) {
    void *memory = sys_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (memory == NULL) {
        return NULL;
    }
    if (!sys_advise(memory, bytes, MADV_WIPEONFORK)) {
        sys_unmap(memory, bytes);
        return NULL;
    }
    return memory;
}

void *process_memory(void *_Atomic *only, size_t bytes) {
    void *memory = atomic_load(only);
    if (memory == NULL) {
        void *made = make(bytes);
        if (made == NULL) {
            return NULL;
        }
        if (atomic_compare_exchange_strong(only, &memory, made)) {
            memory = made;
        } else {
            sys_unmap(made, bytes); /* another thread was first */
        }
    }
    return memory;
}

struct process *process_enter(void) {
    static void *_Atomic only;
    struct process *process = process_memory(&only, sizeof *process);
    if (process != NULL) {
        lock_take(&process->lock);
    }
    return process;
}

void process_leave(struct process *process) { lock_release(&process->lock); }
