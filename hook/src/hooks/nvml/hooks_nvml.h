/* What the gates of NVML share with another. */
#ifndef HOOK_HOOKS_NVML_H
#define HOOK_HOOKS_NVML_H

#include "loader/drivers.h"

/* The UUID of a handle: SUCCESS, or the driver's own refusal: not initialised, no such device; or
 * NO_PERMISSION where it has no UUID. */
nvmlReturn_t nvml_uuid(struct driver *driver, nvmlDevice_t device, CUuuid *uuid);

/* The answer to what changes a card, whatever its arguments: NO_PERMISSION, or the driver's own
 * refusal of any call: not initialised. */
nvmlReturn_t nvml_refuse(struct driver *driver);

/* How the driver answered when it was asked with no room for an answer: that the room is too small
 * is left out. */
static inline nvmlReturn_t nvml_refusal(nvmlReturn_t asked) {
    return asked == NVML_ERROR_INSUFFICIENT_SIZE ? NVML_SUCCESS : asked;
}

/* Room for a struct of any version that says its size in its first word: the driver can't overrun
 * it. */
enum { NVML_STRUCT_ROOM = 512 };

/* Whether such a struct, by its first word, can be asked about: the driver's refusal of the handle
 * comes first, then that of the argument (NULL) or of a version that there is no room for. */
nvmlReturn_t nvml_check_struct(struct driver *driver, nvmlDevice_t device,
                               const unsigned int *version);

#endif
