/* cuGetProcAddress: from a name, a CUDA version and flags to one of a function's variants.
 *
 * The rules are those measured on driver 535 (names-535.txt is its own answers): names carry no
 * version; of the variants that the asked version knows, the newest answers; flags 2 and 3 choose
 * the twin with a default stream per thread where a function has one; flag bits from 4 up are
 * invalid; a version above the driver's own, or a negative one, means the newest. */
#include <limits.h>
#include <string.h>

#include "api.h"
#include "entry.h"

#define FLAG_PER_THREAD 2u

static bool answers(const struct entry *entry, bool per_thread) {
    return entry->found == FOUND_ANY || (entry->found == FOUND_THREAD) == per_thread;
}

/* Returns the status of a look-up; *pointer is NULL unless it succeeds. A function that came after
 * the driver's CUDA version is not there; its older variants are. */
static CUdriverProcAddressQueryResult look_up(const char *name, int version, bool per_thread,
                                              void **pointer) {
    bool known = false;
    int best = -1, newest = entry_cuda_version();
    *pointer = NULL;
    if (version < 0)
        version = INT_MAX;
    for (unsigned i = 0; i < entry_count && name[0]; i++) {
        const struct entry *entry = &entries[i];
        if (strcmp(entry->name, name) != 0 || entry->since > newest || fault_hides(entry->symbol))
            continue;
        known = true;
        if (!answers(entry, per_thread) || entry->since > version || entry->since <= best)
            continue;
        best = entry->since;
        *pointer = entry->address;
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
