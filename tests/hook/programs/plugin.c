/* Opened with RTLD_DEEPBIND, its dlsym is libc's. */
#include <dlfcn.h>

void *plugin_find(void *library, const char *name);

void *plugin_find(void *library, const char *name) { return dlsym(library, name); }
