/* GPU time of the container's processes as a percentage: what NVML calls utilisation. */
#ifndef HOOK_UTILIZATION_H
#define HOOK_UTILIZATION_H

#include "shared/cuda_abi.h"
#include "vcuda_layout.h"

struct utilization {
    uint64_t until_us; /* when the span ended, Unix */
    unsigned percent;  /* of the span in which the container kept the card busy */
    unsigned count;
    struct {
        uint32_t pid;
        uint32_t percent;
    } processes[VCUDA_LEDGER_SLOTS];
};

/* The percentage of the time since this process asked last, or of a sixth of a second: NVML's own
 * shortest sample. A process that asks for the first time sleeps through that sample. SUCCESS or
 * NOT_PERMITTED. */
CUresult utilization_of(const CUuuid *uuid, struct utilization *utilization);

#endif
