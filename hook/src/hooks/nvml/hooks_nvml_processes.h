/*
 * Who uses a card: the container's own processes, by their own PIDs, from the ledger. It knows
 * those that compute; graphics, MPS and video have none there, and neighbours' aren't shown. The
 * driver is asked first, with no room for an answer, so that its refusals stay its own. Closed
 * without limits.
 */
#ifndef HOOK_HOOKS_NVML_PROCESSES_H
#define HOOK_HOOKS_NVML_PROCESSES_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
