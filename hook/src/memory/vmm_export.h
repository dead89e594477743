/*
 * A descriptor that was exported keeps physical memory when its last handle and its last mapping
 * are gone, and gives it back by an import. So its charge stays while the descriptor that the
 * export returned is open here. The close of a descriptor sends no event: the hook looks at
 * descriptors when memory runs short or the program asks for it. A duplicate, or a descriptor that
 * was sent to another process, isn't known here: memory that it alone keeps is unaccounted.
 */
#ifndef HOOK_VMM_EXPORT_H
#define HOOK_VMM_EXPORT_H

#include "memory/vmm.h"

/* The process exported the memory as this descriptor; it imported this descriptor. */
void vmm_exported(uint64_t handle, int fd);
void vmm_imported(uint64_t handle, int fd);
/* Returns the memory that closed descriptors kept; true where there was any. */
bool vmm_reclaim(void);

/* Inside the accounting: callers hold the process's lock. */
bool vmm_is_kept(struct process *process, const struct allocation *physical);

#endif
