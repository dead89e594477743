/*
 * One entry for each gate and each copy of the driver, made from symbols.def. The first copy's
 * entries are the exported ones, so that a program that is linked with the driver and one that asks
 * dlsym for it see the same address, as they would without us.
 */
#include "gates_nvml.h"

#define EXPORTED __attribute__((visibility("default")))

#define ENTRY_0(storage, entry, number, name)                                                      \
    storage CUresult entry(void) {                                                                 \
        struct driver *driver = driver_with(DRIVER_CUDA, number, SYMBOL_##name);                   \
        return driver == NULL ? CUDA_ERROR_NOT_FOUND : gate_##name(driver);                        \
    }

#define ENTRY(storage, entry, number, kind, type, missing, name, args, ...)                        \
    storage type entry(__VA_ARGS__) {                                                              \
        struct driver *driver = driver_with(kind, number, SYMBOL_##name);                          \
        return driver == NULL ? missing : gate_##name(driver, UNWRAP args);                        \
    }

#define ENTRIES(kind, type, missing, name, args, ...)                                              \
    EXPORTED type name(__VA_ARGS__);                                                               \
    ENTRY(EXPORTED, name, 0, kind, type, missing, name, args, __VA_ARGS__)                         \
    ENTRY(static, name##_copy1, 1, kind, type, missing, name, args, __VA_ARGS__)                   \
    ENTRY(static, name##_copy2, 2, kind, type, missing, name, args, __VA_ARGS__)                   \
    ENTRY(static, name##_copy3, 3, kind, type, missing, name, args, __VA_ARGS__)

#define LOADER_GATE(name)
#define CUDA_GATE(name, args, ...)                                                                 \
    ENTRIES(DRIVER_CUDA, CUresult, CUDA_ERROR_NOT_FOUND, name, args, __VA_ARGS__)
#define CUDA_GATE_0(name)                                                                          \
    EXPORTED CUresult name(void);                                                                  \
    ENTRY_0(EXPORTED, name, 0, name)                                                               \
    ENTRY_0(static, name##_copy1, 1, name)                                                         \
    ENTRY_0(static, name##_copy2, 2, name)                                                         \
    ENTRY_0(static, name##_copy3, 3, name)
#define NVML_GATE(name, args, ...)                                                                 \
    ENTRIES(DRIVER_NVML, nvmlReturn_t, NVML_ERROR_FUNCTION_NOT_FOUND, name, args, __VA_ARGS__)
#define REFUSAL(storage, entry, number, name)                                                      \
    storage nvmlReturn_t entry(void) {                                                             \
        struct driver *driver = driver_with(DRIVER_NVML, number, SYMBOL_##name);                   \
        return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : nvml_refuse(driver);               \
    }
#define NVML_REFUSED(name)                                                                         \
    EXPORTED nvmlReturn_t name(void);                                                              \
    REFUSAL(EXPORTED, name, 0, name)                                                               \
    REFUSAL(static, name##_copy1, 1, name)                                                         \
    REFUSAL(static, name##_copy2, 2, name)                                                         \
    REFUSAL(static, name##_copy3, 3, name)
#define CUDA_REAL(name, ...)
#define NVML_REAL(name, ...)
#include "symbols.def"
#undef CUDA_GATE
#undef CUDA_GATE_0
#undef NVML_GATE
#undef NVML_REFUSED

#define ROW(name) {(void *)name, (void *)name##_copy1, (void *)name##_copy2, (void *)name##_copy3}

static void *const gates[SYMBOL_COUNT][DRIVER_COPIES] = {
#define CUDA_GATE(name, ...) [SYMBOL_##name] = ROW(name),
#define NVML_GATE(name, ...) [SYMBOL_##name] = ROW(name),
#include "symbols.def"
};

void *gate_address(enum symbol symbol, unsigned number) { return gates[symbol][number]; }
