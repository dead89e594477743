/*
 * Mappings keep physical memory. While the driver unmaps, their records have other kinds, by
 * address, where nothing new is mapped until the call is over; the handle may be given out
 * meanwhile.
 */
#ifndef HOOK_VMM_MAP_H
#define HOOK_VMM_MAP_H

#include "memory/vmm.h"

/* Around cuMemMap. SUCCESS, or NOT_PERMITTED where there is no memory for a record. `known`: the
 * memory is ours, and vmm_map_end must follow. */
CUresult vmm_map_begin(uint64_t handle, bool *known);
void vmm_map_end(uint64_t handle, uint64_t address, uint64_t bytes, bool mapped);

/* Around cuMemUnmap, which takes one mapping or several that lie side by side. */
void vmm_unmap_begin(uint64_t address, uint64_t bytes);
void vmm_unmap_end(uint64_t address, uint64_t bytes, bool unmapped);

#endif
