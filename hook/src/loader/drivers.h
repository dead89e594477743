/*
 * The driver libraries of this process and the gates that stand before them.
 *
 * One table for each loaded object with the driver's SONAME; a program may bring a second copy,
 * and a gate calls the copy of the function that it stands for.
 */
#ifndef HOOK_DRIVERS_H
#define HOOK_DRIVERS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shared/cuda_launch_abi.h"
#include "shared/nvml_abi.h"

#define CUDA_SONAME "libcuda.so.1"
#define NVML_SONAME "libnvidia-ml.so.1"

/* Copies of one library that have a table each. Gated names of a further copy don't resolve. */
enum { DRIVER_COPIES = 4 };

enum driver_kind { DRIVER_CUDA, DRIVER_NVML, DRIVER_KINDS };

enum symbol {
#define LOADER_GATE(name)
#define CUDA_GATE(name, ...) SYMBOL_##name,
#define NVML_GATE(name, ...) SYMBOL_##name,
#define CUDA_REAL(name, ...) SYMBOL_##name,
#define NVML_REAL(name, ...) SYMBOL_##name,
#include "symbols.def"
#undef LOADER_GATE
#undef CUDA_GATE
#undef NVML_GATE
#undef CUDA_REAL
#undef NVML_REAL
    SYMBOL_COUNT
};

struct driver {
    _Atomic uintptr_t base; /* 0: no such copy */
    void *_Atomic real[SYMBOL_COUNT];
};

/* The types of the real functions, and the prototypes of the gates. */
#define LOADER_GATE(name)
#define UNWRAP(...) __VA_ARGS__
#define CUDA_GATE(name, args, ...)                                                                 \
    typedef CUresult name##_fn(__VA_ARGS__);                                                       \
    CUresult gate_##name(struct driver *driver, __VA_ARGS__);
#undef CUDA_GATE_0
#define CUDA_GATE_0(name)                                                                          \
    typedef CUresult name##_fn(void);                                                              \
    CUresult gate_##name(struct driver *driver);
#undef CUDA_TWINS
#define CUDA_TWINS(name, args, ...)                                                                \
    typedef CUresult name##_fn(__VA_ARGS__);                                                       \
    typedef name##_fn name##_ptsz_fn;                                                              \
    CUresult gate_##name(struct driver *driver, bool per_thread, __VA_ARGS__);
#define NVML_GATE(name, args, ...)                                                                 \
    typedef nvmlReturn_t name##_fn(__VA_ARGS__);                                                   \
    nvmlReturn_t gate_##name(struct driver *driver, __VA_ARGS__);
#undef NVML_REFUSED
#define NVML_REFUSED(name)
#define CUDA_REAL(name, ...) typedef CUresult name##_fn(__VA_ARGS__);
#define NVML_REAL(name, ...) typedef nvmlReturn_t name##_fn(__VA_ARGS__);
#include "symbols.def"
#undef LOADER_GATE
#undef CUDA_GATE
#undef CUDA_GATE_0
#undef CUDA_TWINS
#undef NVML_GATE
#undef NVML_REFUSED
#undef CUDA_REAL
#undef NVML_REAL

/* The real function, typed; NULL where the driver doesn't have it. */
#define REAL(driver, name) ((name##_fn *)atomic_load(&(driver)->real[SYMBOL_##name]))

/* The same of a gate's two functions. */
#define REAL_TWIN(driver, per_thread, name)                                                        \
    ((name##_fn *)atomic_load(&(driver)->real[(per_thread) ? SYMBOL_##name##_ptsz : SYMBOL_##name]))

/* The copy with this number, where it is loaded and has `symbol`; else NULL. */
struct driver *driver_with(enum driver_kind kind, unsigned number, enum symbol symbol);

/* The function that a program gets for an address: the gate where it is the real address of a gated
 * function of any copy, else the address itself. */
void *drivers_route(void *address);
/* Reads again which copies are loaded. */
void drivers_scan(void);
bool drivers_gate(const char *name);   /* whether a function of this name is gated */
bool drivers_own(const void *address); /* whether it is an exported gate of ours */
/* Whether the address lies in a copy beyond those. */
bool drivers_is_stray(const void *address);

#endif
