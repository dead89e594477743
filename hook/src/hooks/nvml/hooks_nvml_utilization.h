/*
 * How busy the container keeps a card, in percent of the card's time: with a share of 30 % it is 30
 * when all of the share is used. From the ledger, which has the limiter's own count of GPU time.
 * Closed without limits.
 */
#ifndef HOOK_HOOKS_NVML_UTILIZATION_H
#define HOOK_HOOKS_NVML_UTILIZATION_H

#include "loader/drivers.h" /* declares its gates, from symbols.def */

#endif
