/*
 * The ledger counts GPU time; a percentage needs two looks at it. The last look is kept for the
 * next question, for each card of this process; a child keeps no look of its parent.
 */
#include "hooks/nvml/utilization.h"

#include <string.h>

#include "memory/account.h"
#include "memory/process.h"
#include "shared/clock.h"
#include "shared/sys.h"

/* nvml.h: "the sample period may be between 1 second and 1/6 second". */
#define SPAN_NS (NS_PER_S / 6)
/* An average over more says nothing of now. */
#define STALE_NS (60 * NS_PER_S)

struct watch {
    CUuuid uuid;
    uint64_t seen_at; /* CLOCK_MONOTONIC; 0: never */
    struct process_usage seen[VCUDA_LEDGER_SLOTS];
    unsigned seen_count;
    struct utilization answer; /* until_us is 0: none yet */
};

struct watches {
    struct lock lock; /* guards everything below */
    unsigned count;
    struct watch watches[VCUDA_MAX_CARDS];
};

/* NULL: a process has no more cards than that. */
static struct watch *find(struct watches *all, const CUuuid *uuid) {
    for (unsigned i = 0; i < all->count; i++) {
        if (memcmp(&all->watches[i].uuid, uuid, sizeof *uuid) == 0) {
            return &all->watches[i];
        }
    }
    if (all->count == VCUDA_MAX_CARDS) {
        return NULL;
    }
    all->watches[all->count].uuid = *uuid;
    return &all->watches[all->count++];
}

static uint64_t busy_before(const struct watch *watch, const struct process_usage *process) {
    for (unsigned i = 0; i < watch->seen_count; i++) {
        const struct process_usage *seen = &watch->seen[i];
        if (seen->slot == process->slot && seen->pid == process->pid) {
            return seen->busy_ns < process->busy_ns ? seen->busy_ns : process->busy_ns;
        }
    }
    return 0; /* the time has come since */
}

static unsigned percent_of(uint64_t part_ns, uint64_t span_ns) {
    uint64_t percent = part_ns > span_ns ? 100 : (part_ns * 100 + span_ns / 2) / span_ns;
    return (unsigned)percent;
}

static void compare(struct watch *watch, const struct process_usage *now, unsigned count,
                    uint64_t span_ns) {
    struct utilization *answer = &watch->answer;
    uint64_t all_ns = 0;
    answer->count = 0;
    for (unsigned i = 0; i < count; i++) {
        uint64_t ns = now[i].busy_ns - busy_before(watch, &now[i]);
        all_ns += ns < span_ns ? ns : span_ns; /* a tenant may have written any value there */
        answer->processes[answer->count].pid = now[i].pid;
        answer->processes[answer->count].percent = percent_of(ns, span_ns);
        answer->count += answer->processes[answer->count].percent != 0;
    }
    answer->percent = percent_of(all_ns, span_ns);
    answer->until_us = clock_wall_us();
}

static CUresult look(struct watch *watch, uint64_t now) {
    struct process_usage list[VCUDA_LEDGER_SLOTS];
    unsigned count;
    CUresult result = account_processes(&watch->uuid, list, &count);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    bool is_first = watch->seen_at == 0 || now - watch->seen_at > STALE_NS;
    if (is_first) {
        watch->answer.until_us = 0;
    } else {
        compare(watch, list, count, now - watch->seen_at);
    }
    memcpy(watch->seen, list, count * sizeof *list);
    watch->seen_count = count;
    watch->seen_at = now;
    return CUDA_SUCCESS;
}

/* SUCCESS and `ready_at`: until then there is nothing to answer; 0: `usage` is filled. */
static CUresult ask(struct watches *all, const CUuuid *uuid, struct utilization *utilization,
                    uint64_t *ready_at) {
    struct watch *watch = find(all, uuid);
    uint64_t now = clock_now();
    if (watch == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    CUresult result = CUDA_SUCCESS;
    if (watch->seen_at == 0 || now - watch->seen_at >= SPAN_NS) {
        result = look(watch, now);
    }
    *ready_at = watch->answer.until_us == 0 ? watch->seen_at + SPAN_NS : 0;
    if (result == CUDA_SUCCESS && *ready_at == 0) {
        *utilization = watch->answer;
    }
    return result;
}

CUresult utilization_of(const CUuuid *uuid, struct utilization *utilization) {
    static void *_Atomic only;
    struct watches *all = process_memory(&only, sizeof *all);
    uint64_t ready_at;
    CUresult result;
    if (all == NULL) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    do {
        lock_take(&all->lock);
        result = ask(all, uuid, utilization, &ready_at);
        lock_release(&all->lock);
        if (result == CUDA_SUCCESS && ready_at != 0) {
            clock_sleep_until(ready_at);
        }
    } while (result == CUDA_SUCCESS && ready_at != 0);
    return result;
}
