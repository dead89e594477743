/* cuGetProcAddress: from a name, a CUDA version and flags to one of a function's variants.
 *
 * The rules are those measured on driver 535 (the hook's tests compare against the real one):
 * names carry no version; of the variants that the asked version knows, the newest answers; flags
 * 2 and 3 choose the twin with a default stream per thread, which exists from 7000 on; flag bits
 * from 4 up are invalid; a version above the driver's own, or a negative one, means the newest. */
#include <limits.h>
#include <string.h>

#include "api.h"

#define PER_THREAD_SINCE 7000
#define FLAG_PER_THREAD 2u

struct variant {
    const char *name;
    int since;
    void *legacy, *per_thread; /* per_thread NULL: the function has no stream */
};

#define API(name, symbol, since, params) {#name, since, (void *)symbol, NULL},
#define STREAM(name, symbol, since, params) {#name, since, (void *)symbol, (void *)symbol##_ptsz},
#define DEFAULT(name, symbol, since, params) {#name, since, (void *)symbol, (void *)symbol##_ptds},

static const struct variant variants[] = {
#include "entries.def"
};

static int since(const struct variant *variant, bool twin) {
    return twin && variant->since < PER_THREAD_SINCE ? PER_THREAD_SINCE : variant->since;
}

/* Of a function with a stream, flag 2 sees the twins only: asked below 7000 it is too old, although
 * the variant with the legacy stream is there. */
static bool has_twin(const char *name) {
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        if (variants[i].per_thread && strcmp(variants[i].name, name) == 0)
            return true;
    return false;
}

/* Returns the status of a look-up; *pointer is NULL unless it succeeds. */
static CUdriverProcAddressQueryResult look_up(const char *name, int version, bool per_thread,
                                              void **pointer) {
    bool known = false, twin = per_thread && has_twin(name);
    int best = -1;
    *pointer = NULL;
    if (version < 0)
        version = INT_MAX;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        const struct variant *variant = &variants[i];
        if (strcmp(variant->name, name) != 0)
            continue;
        known = true;
        if (since(variant, twin) > version || variant->since <= best ||
            (twin && !variant->per_thread))
            continue;
        best = variant->since;
        *pointer = twin ? variant->per_thread : variant->legacy;
    }
    if (*pointer)
        return CU_GET_PROC_ADDRESS_SUCCESS;
    return known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                 : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

/* Unknown names: NOT_FOUND, and the caller's pointer is left alone. */
CUresult cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags) {
    void *pointer;
    if (flags > 3 || !name || !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (look_up(name, version, flags & FLAG_PER_THREAD, &pointer) != CU_GET_PROC_ADDRESS_SUCCESS)
        return CUDA_ERROR_NOT_FOUND;
    *out = pointer;
    return CUDA_SUCCESS;
}

/* Unknown names: success, a status, and NULL. cudart 12 passes no place for the status, and the
 * empty name as a probe. */
CUresult cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags,
                             CUdriverProcAddressQueryResult *status) {
    if (flags > 3 || !name || !out)
        return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult found = look_up(name, version, flags & FLAG_PER_THREAD, out);
    if (status)
        *status = found;
    return CUDA_SUCCESS;
}

/* The private tables that libcudart asks for are not imitated. */
CUresult cuGetExportTable(const void **table, const CUuuid *id) {
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
