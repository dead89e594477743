/* A name that isn't gated is searched from its caller on, and a plug-in's own libraries count. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

static void *open_plugin(const char *name, int mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/plugins/lib%s.so", getenv("TEST_BUILD"), name);
    void *plugin = dlopen(path, RTLD_NOW | mode);
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
    }
    CHECK(plugin != NULL);
    return plugin;
}

int main(void) {
    files_make();
    void *outer = open_plugin("outer", RTLD_GLOBAL);
    int (*which_layer)(void) = (int (*)(void))dlsym(outer, "which_layer");
    CHECK(which_layer() == 11); /* from the outer layer on, not from the hook on */
    CHECK(dlsym(RTLD_DEFAULT, "which_layer") == (void *)which_layer);
    CHECK(dlsym(RTLD_NEXT, "which_layer") == (void *)which_layer);

    void *plugin = open_plugin("linked", RTLD_LOCAL);
    void *(*ask)(const char *) = (void *(*)(const char *))dlsym(plugin, "plugin_ask");
    CHECK(((int (*)(void))dlsym(plugin, "plugin_init"))() == CUDA_SUCCESS);
    CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL);           /* not in the program's scope */
    CHECK(ask("cuMemAlloc_v2") == cuda_function("cuMemAlloc_v2")); /* but in the plug-in's */
    CHECK(dlerror() == NULL);
    CHECK(ask("cuInit") == cuda_function("cuInit"));
    ask = (void *(*)(const char *))dlsym(plugin, "plugin_ask_next");
    CHECK(ask("cuMemAlloc_v2") == cuda_function("cuMemAlloc_v2"));
    CHECK(ask("cuInit") == cuda_function("cuInit"));
    CHECK(ask("dlsym") == (void *)dlsym);
    return 0;
}
