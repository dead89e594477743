/* The contexts of this process: each is charged while it lives. */
#ifndef HOOK_CONTEXTS_H
#define HOOK_CONTEXTS_H

#include "memory/card_limits.h"

/* A context that is about to be made, by its number in this process; a primary one that is known,
 * or that another thread is about to make, has its number already and isn't charged again. After
 * SUCCESS one of context_keep, with the driver's handle, and context_cancel. Number 0, where
 * on_error is open, stands for an uncounted one. */
CUresult context_charge_new(const struct current_context *unmade, bool primary, uint32_t *number);
/* A context that is known already, by another thread's use of it, isn't charged twice; a primary
 * one whose record another thread's release has dropped meanwhile is charged again. */
void context_keep(uint32_t number, const struct current_context *made);
void context_cancel(uint32_t number);
/* The number of a known context, else 0; the primary one where its handle is NULL. */
uint32_t context_number(const struct current_context *current);
/* A context that is used, and may have been made by an unknown call: charged if it is new. SUCCESS
 * or NOT_PERMITTED. */
CUresult context_charge_if_new(const struct current_context *current);
/* The device of a known context; false for another number. */
bool context_device(uint32_t number, CUdevice *device);
/* How many calls have made or retained it. */
uint32_t context_retains(uint32_t number);
/* A context has ended: its charge and all its allocations go back, unless it was retained since
 * there were so many `retains`. Then another thread has made it anew by now, and the charge stays:
 * with that of the allocations, which isn't known to be only of the one that has ended. */
void context_drop(uint32_t number, uint32_t retains);

/* Inside the accounting: callers hold the process's lock. */
struct context *context_by_number(struct process *process, uint32_t number);
struct context *context_find(struct process *process, const struct current_context *current);
/* A free place with a new number, without a charge; NULL when all are taken. */
struct context *context_add(struct process *process, const struct current_context *current,
                            int card);
void context_charge(struct process *process, struct context *context, uint64_t units);
/* The context of `current`; one that is met for the first time is charged. NULL: there is no place.
 */
struct context *context_seen(struct process *process, const struct current_context *current,
                             const struct card_limits *limits);
void context_remove(struct process *process, struct context *context);

#endif
