/*
 * A descriptor that was exported keeps physical memory when its last handle and its last mapping
 * are gone, and gives it back by an import. So its charge stays while the descriptor that the
 * export returned is open here. No event says that a descriptor is closed: it is looked at when
 * memory runs short or is asked for. A duplicate, or one that another process was sent, isn't known
 * here: what it alone keeps is unaccounted.
 */
#ifndef HOOK_VMM_EXPORT_H
#define HOOK_VMM_EXPORT_H

#include "memory/vmm.h"

/* It exported the memory as this descriptor; it imported this descriptor. */
void vmm_exported(uint64_t handle, int fd);
void vmm_imported(uint64_t handle, int fd);
/* Returns what descriptors kept that are closed by now; whether there was any. */
bool vmm_reclaim(void);

/* Inside the accounting: callers hold the process's lock. */
bool vmm_is_kept(struct process *process, const struct allocation *physical);
bool vmm_settle(struct process *process);

#endif
