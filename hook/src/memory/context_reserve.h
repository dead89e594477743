/* The memory that a context's limits set aside: charged when they are set, where a program still
 * expects a refusal. The driver may take it later. */
#ifndef HOOK_CONTEXT_RESERVE_H
#define HOOK_CONTEXT_RESERVE_H

#include "memory/account.h"

/* The memory that a context sets aside by its limits, beyond that of every context. */
enum context_reserve { CONTEXT_RESERVE_HEAP, CONTEXT_RESERVE_STACKS, CONTEXT_RESERVES };
/* The reserve is `bytes` in the context of `current` from now on. SUCCESS, or OUT_OF_MEMORY or
 * NOT_PERMITTED without a change. */
CUresult context_reserve_set(const struct current_context *current, enum context_reserve reserve,
                             uint64_t bytes);

#endif
