/*
 * The ways from a name to a function: dlsym and dlvsym (their C half; dlsym.S is the other) and
 * cuGetProcAddress. All answer what the loader or the driver answers, unless that is the real
 * address of a gated function: then the gate. So no list of versions and variants is kept here.
 *
 * Nothing is locked while libc's dlsym runs, and no state is kept but its two addresses.
 */
#ifndef HOOK_RESOLVE_H
#define HOOK_RESOLVE_H

/* Called by dlsym.S. */
struct dlsym_answer {
    void *value;
    void *tail; /* not NULL: jump there instead of returning value */
};

struct dlsym_answer hook_dlsym_answer(void *handle, const char *name, const char *version,
                                      void *caller);

#endif
