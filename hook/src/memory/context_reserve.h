/* What a context's limits set aside: charged when they are set, where a program still expects a
 * refusal, whenever the driver then takes it. */
#ifndef HOOK_CONTEXT_RESERVE_H
#define HOOK_CONTEXT_RESERVE_H

#include "memory/account.h"

/* What a context sets aside by its limits, beyond what every context takes. */
enum context_reserve { CONTEXT_RESERVE_HEAP, CONTEXT_RESERVE_STACKS, CONTEXT_RESERVES };
/* It is `bytes` in the context of `current` from now on. SUCCESS, or OUT_OF_MEMORY or NOT_PERMITTED
 * and nothing changes. */
CUresult context_reserve_set(const struct current_context *current, enum context_reserve reserve,
                             uint64_t bytes);

#endif
