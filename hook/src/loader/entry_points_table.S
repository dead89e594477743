/*
 * Where the gates lie: for each symbol, in the order of enum symbol, how far the entry of each copy
 * is from the beginning of this table; 0 where the symbol isn't gated. Addresses would have to be
 * relocated in every process that the hook is preloaded into, CUDA or not, which takes time and
 * makes pages its own; distances are shared by all. A C initializer can't say them.
 */
#define LOADER_GATE(name)
#define CUDA_GATE(name, ...)                                                                       \
    .long name - entry_point_distances, name##_copy1 - entry_point_distances, name##_copy2 - entry_point_distances,     \
        name##_copy3 - entry_point_distances
#define CUDA_TWINS(name, ...) CUDA_GATE(name); CUDA_GATE(name##_ptsz)
#define NVML_GATE CUDA_GATE
#define CUDA_REAL(...) .long 0, 0, 0, 0
#define NVML_REAL CUDA_REAL

    .section .rodata
    .hidden entry_point_distances
    .globl entry_point_distances
    .type entry_point_distances, %object
    .balign 4
entry_point_distances:
#include "symbols.def"
    .size entry_point_distances, . - entry_point_distances

    .section .note.GNU-stack,"",%progbits
