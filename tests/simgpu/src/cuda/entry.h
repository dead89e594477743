/* A small stub of its own before every exported function, as in the real driver. */
#ifndef SIMGPU_ENTRY_H
#define SIMGPU_ENTRY_H

#include "driver.h"

enum found { FOUND_ANY, FOUND_LEGACY, FOUND_THREAD };

/* One exported symbol and how cuGetProcAddress finds it. */
struct entry {
    const char *symbol;
    const char *name; /* without version; "": never found by cuGetProcAddress */
    int since;        /* CUDA version times 1000 */
    enum found found;
    void *address; /* of the stub */
};
extern const struct entry entries[];
extern const unsigned entry_count;
extern const int library_cuda; /* CUDA version of the generation */

/* Called by the stub of entries[index]: SUCCESS lets the call through, another result is the
 * answer. */
CUresult entry_check(unsigned index);

/* The thread runs a host function: CUDA calls are refused. */
void entry_in_callback(bool inside);

/* The CUDA version that the driver says it has: of the description ("cuda"), or, in this process,
 * of SIMGPU_GENERATION (such as "11.8"), but not above the library's. */
int entry_cuda_version(void);

/* fault.c: an injected fault for this call: waits as it says, and answers as it says. */
CUresult fault_check(const char *symbol);
bool fault_hides(const char *symbol);

#endif
