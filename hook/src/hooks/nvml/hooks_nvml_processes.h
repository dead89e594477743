/*
 * The processes that use a card: the container's own processes, by their own PIDs, from the ledger.
 * The ledger knows processes that compute, and none of graphics, MPS and video; neighbours'
 * processes stay hidden. The driver is asked first, with no room for an answer, so that a refusal
 * is the driver's. Closed without limits.
 */
#ifndef HOOK_HOOKS_NVML_PROCESSES_H
#define HOOK_HOOKS_NVML_PROCESSES_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
