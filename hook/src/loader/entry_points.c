#include "loader/entry_points.h"

#include "hooks/nvml/hooks_nvml.h"

#define EXPORTED __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))

/* `call` is the gate's, with `driver`. */
#define ENTRY(storage, entry, number, kind, type, missing, name, call, ...)                        \
    storage type entry(__VA_ARGS__);                                                               \
    storage type entry(__VA_ARGS__) {                                                              \
        struct driver *driver = driver_with(kind, number, SYMBOL_##name);                          \
        return driver == NULL ? missing : call;                                                    \
    }

#define ENTRIES(kind, type, missing, name, call, ...)                                              \
    ENTRY(EXPORTED, name, 0, kind, type, missing, name, call, __VA_ARGS__)                         \
    ENTRY(HIDDEN, name##_copy1, 1, kind, type, missing, name, call, __VA_ARGS__)                   \
    ENTRY(HIDDEN, name##_copy2, 2, kind, type, missing, name, call, __VA_ARGS__)                   \
    ENTRY(HIDDEN, name##_copy3, 3, kind, type, missing, name, call, __VA_ARGS__)

#define CUDA_ENTRIES(name, call, ...)                                                              \
    ENTRIES(DRIVER_CUDA, CUresult, CUDA_ERROR_NOT_FOUND, name, call, __VA_ARGS__)
#define NVML_ENTRIES(name, call, ...)                                                              \
    ENTRIES(DRIVER_NVML, nvmlReturn_t, NVML_ERROR_FUNCTION_NOT_FOUND, name, call, __VA_ARGS__)

#define LOADER_GATE(name)
#define CUDA_GATE(name, args, ...) CUDA_ENTRIES(name, gate_##name(driver, UNWRAP args), __VA_ARGS__)
#define CUDA_GATE_0(name) CUDA_ENTRIES(name, gate_##name(driver), void)
#define CUDA_TWINS(name, args, ...)                                                                \
    CUDA_ENTRIES(name, gate_##name(driver, false, UNWRAP args), __VA_ARGS__)                       \
    CUDA_ENTRIES(name##_ptsz, gate_##name(driver, true, UNWRAP args), __VA_ARGS__)
#define NVML_GATE(name, args, ...) NVML_ENTRIES(name, gate_##name(driver, UNWRAP args), __VA_ARGS__)
#define NVML_REFUSED(name) NVML_ENTRIES(name, nvml_refuse(driver), void)
#define CUDA_REAL(name, ...)
#define NVML_REAL(name, ...)
#include "symbols.def"

extern HIDDEN const int32_t
    entry_point_distances[SYMBOL_COUNT][DRIVER_COPIES]; /* entry_points_table.S */

void *entry_point_address(enum symbol symbol, unsigned number) {
    int32_t distance = entry_point_distances[symbol][number];
    return distance == 0 ? NULL : (char *)(uintptr_t)entry_point_distances + distance;
}
