/* Functions that the gates of NVML share. */
#ifndef HOOK_HOOKS_NVML_H
#define HOOK_HOOKS_NVML_H

#include "loader/drivers.h"

/* The UUID of a handle: SUCCESS, or the driver's own refusal: not initialised, no such device; or
 * NO_PERMISSION where the handle has no UUID. */
nvmlReturn_t nvml_uuid(struct driver *driver, nvmlDevice_t device, CUuuid *uuid);

/* The answer to a call that changes a card, for any arguments: NO_PERMISSION, or the driver's own
 * refusal of any call: not initialised. */
nvmlReturn_t nvml_refuse(struct driver *driver);

/* The driver's answer to a call without room for an answer; the answer "too small" counts as
 * success. */
static inline nvmlReturn_t nvml_refusal(nvmlReturn_t asked) {
    return asked == NVML_ERROR_INSUFFICIENT_SIZE ? NVML_SUCCESS : asked;
}

/* Room for a struct of any version that tells its size in its first word: the driver can't overrun
 * it. */
enum { NVML_STRUCT_ROOM = 512 };

/* Whether the driver can be asked with such a struct, by its first word: the driver's refusal of
 * the handle comes first, then that of the argument (NULL) or of a version that there is no room
 * for. */
nvmlReturn_t nvml_check_struct(struct driver *driver, nvmlDevice_t device,
                               const unsigned int *version);

#endif
