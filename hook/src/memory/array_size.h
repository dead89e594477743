/* The memory of an array, from its description. */
#ifndef HOOK_ARRAY_SIZE_H
#define HOOK_ARRAY_SIZE_H

#include "shared/cuda_memory_abi.h"

/* Bytes of an array with this many levels of detail (1: an array, 0 counts as 1); 0 where its
 * memory is mapped later, by cuMemMapArrayAsync; UINT64_MAX where the size needs more than 64
 * bits. */
uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned levels);

#endif
