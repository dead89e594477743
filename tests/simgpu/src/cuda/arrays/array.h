/* CUDA arrays and mipmapped arrays, shared by array.c, mipmap.c and array_info.c. driver.lock held
 * in all functions. */
#ifndef SIMGPU_ARRAY_H
#define SIMGPU_ARRAY_H

#include "api.h"

#define TILE_BYTES 65536ULL /* of sparse arrays, as the documentation of sparse arrays says */
#define LEVELS_MAX 18       /* of an edge of 131072 */

struct array {
    struct array *next;
    struct context *context;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    struct memory memory;  /* the array's own; no bytes: it has none */
    struct mipmap *mipmap; /* the mipmapped array of this level, with its memory */
};

struct mipmap {
    struct mipmap *next;
    struct context *context;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    unsigned count;
    struct memory memory;    /* likewise, for all levels */
    struct backing *backing; /* the external memory under the array */
    struct array *levels[LEVELS_MAX];
};

struct array *array_find(CUarray handle);
/* An array with so many bytes of the card; NULL without memory. */
struct array *array_add(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                        uint64_t bytes);
/* Memory for arrays: heap_take that leaves no bytes alone; none on failure. */
bool array_memory(struct context *context, uint64_t bytes, struct memory *memory);
void array_remove(struct array *array);
uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);
/* Sparse arrays and those with deferred mapping take no memory themselves. */
bool array_is_deferred(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);
struct mipmap *mipmap_find(CUmipmappedArray handle);

#endif
