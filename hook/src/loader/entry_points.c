#include "loader/entry_points.h"

#include "hooks/nvml/hooks_nvml.h"

#define EXPORTED __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))

#define ENTRY_0(storage, entry, number, name)                                                      \
    storage CUresult entry(void);                                                                  \
    storage CUresult entry(void) {                                                                 \
        struct driver *driver = driver_with(DRIVER_CUDA, number, SYMBOL_##name);                   \
        return driver == NULL ? CUDA_ERROR_NOT_FOUND : gate_##name(driver);                        \
    }

#define ENTRY(storage, entry, number, kind, type, missing, name, args, ...)                        \
    storage type entry(__VA_ARGS__);                                                               \
    storage type entry(__VA_ARGS__) {                                                              \
        struct driver *driver = driver_with(kind, number, SYMBOL_##name);                          \
        return driver == NULL ? missing : gate_##name(driver, UNWRAP args);                        \
    }

#define ENTRIES(kind, type, missing, name, args, ...)                                              \
    ENTRY(EXPORTED, name, 0, kind, type, missing, name, args, __VA_ARGS__)                         \
    ENTRY(HIDDEN, name##_copy1, 1, kind, type, missing, name, args, __VA_ARGS__)                   \
    ENTRY(HIDDEN, name##_copy2, 2, kind, type, missing, name, args, __VA_ARGS__)                   \
    ENTRY(HIDDEN, name##_copy3, 3, kind, type, missing, name, args, __VA_ARGS__)

#define LOADER_GATE(name)
#define CUDA_GATE(name, args, ...)                                                                 \
    ENTRIES(DRIVER_CUDA, CUresult, CUDA_ERROR_NOT_FOUND, name, args, __VA_ARGS__)
#define CUDA_GATE_0(name)                                                                          \
    ENTRY_0(EXPORTED, name, 0, name)                                                               \
    ENTRY_0(HIDDEN, name##_copy1, 1, name)                                                         \
    ENTRY_0(HIDDEN, name##_copy2, 2, name)                                                         \
    ENTRY_0(HIDDEN, name##_copy3, 3, name)
#define NVML_GATE(name, args, ...)                                                                 \
    ENTRIES(DRIVER_NVML, nvmlReturn_t, NVML_ERROR_FUNCTION_NOT_FOUND, name, args, __VA_ARGS__)
#define REFUSAL(storage, entry, number, name)                                                      \
    storage nvmlReturn_t entry(void);                                                              \
    storage nvmlReturn_t entry(void) {                                                             \
        struct driver *driver = driver_with(DRIVER_NVML, number, SYMBOL_##name);                   \
        return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : nvml_refuse(driver);               \
    }
#define NVML_REFUSED(name)                                                                         \
    REFUSAL(EXPORTED, name, 0, name)                                                               \
    REFUSAL(HIDDEN, name##_copy1, 1, name)                                                         \
    REFUSAL(HIDDEN, name##_copy2, 2, name)                                                         \
    REFUSAL(HIDDEN, name##_copy3, 3, name)
#define CUDA_REAL(name, ...)
#define NVML_REAL(name, ...)
#include "symbols.def"

extern HIDDEN const int32_t
    entry_point_distances[SYMBOL_COUNT][DRIVER_COPIES]; /* entry_points_table.S */

void *entry_point_address(enum symbol symbol, unsigned number) {
    int32_t distance = entry_point_distances[symbol][number];
    return distance == 0 ? NULL : (char *)(uintptr_t)entry_point_distances + distance;
}
