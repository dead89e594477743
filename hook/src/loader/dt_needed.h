/*
 * Whether an object would reach a library by its own DT_NEEDED entries: the scope in which
 * RTLD_DEFAULT searches for a plug-in that was opened RTLD_LOCAL.
 */
#ifndef HOOK_DT_NEEDED_H
#define HOOK_DT_NEEDED_H

/* The definition of `name` in the object with this SONAME, where the object that holds `address`
 * needs it, directly or through others. */
void *dt_needed_find(const void *address, const char *soname, const char *name);

#endif
