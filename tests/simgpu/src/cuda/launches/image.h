/* Images of programs: PTX text, or a binary of any kind, which is not looked into.
 *
 * A kernel's duration stands in its name: it ends in _<n>ns, _<n>us, _<n>ms or _<n>s. A function
 * named `spin` takes its first parameter (uint32, microseconds). Any other takes 10 us. */
#ifndef SIMGPU_IMAGE_H
#define SIMGPU_IMAGE_H

#include "driver.h"

bool image_is_ptx(const char *image);
bool image_is_name(const char *name);

/* Whether a PTX text has the name as a word after the directive, before its statement ends. */
bool image_names(const char *text, const char *directive, const char *name);

/* A function by its name, of no module yet; NULL: no memory. */
struct function *function_new(const char *name);

/* module.c: whether there was such a module in any living context. driver.lock held. */
bool module_unload(CUmodule handle);

/* library.c: a kernel of a library is loaded where it is first used. */
CUresult library_use(CUfunction kernel);

#endif
