/* A plug-in that is linked with the driver and asks its scope for a symbol of it. */
#include <dlfcn.h>

#include "shared/cuda_abi.h"

CUresult cuInit(unsigned int flags);
void *plugin_ask(const char *name);
void *plugin_ask_next(const char *name);
int plugin_init(void);

void *plugin_ask(const char *name) {
    void *volatile found = dlsym(RTLD_DEFAULT, name); /* no tail call: the caller must be us */
    return found;
}

void *plugin_ask_next(const char *name) {
    void *volatile found = dlsym(RTLD_NEXT, name);
    return found;
}

int plugin_init(void) { return cuInit(0); }
