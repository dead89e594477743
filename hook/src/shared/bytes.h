/*
 * memcpy, memmove and memset, for compilers call them for structures, too. A library of LD_PRELOAD
 * may stand before libc's, and would put limits of its own into the copy that the hook makes.
 */
#ifndef HOOK_BYTES_H
#define HOOK_BYTES_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

#endif
