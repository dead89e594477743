/* Libraries: code that belongs to the process, and becomes a module of a context when one of its
 * kernels is first used there (lazy loading, the default since CUDA 12.2). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "image.h"

struct loaded {
    struct loaded *next;
    const struct context *context;
    CUmodule module;
};

struct library {
    struct library *next;
    char *text; /* PTX, else NULL: a binary is neither read nor kept */
    struct function *kernels;
    struct loaded *loaded;
};

static struct library *libraries;

static bool is_library(const struct library *handle) {
    for (const struct library *at = libraries; at; at = at->next)
        if (at == handle)
            return true;
    return false;
}

static bool is_kernel(const struct function *handle) {
    for (const struct library *library = libraries; library; library = library->next)
        for (const struct function *at = library->kernels; at; at = at->next)
            if (at == handle)
                return true;
    return false;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *code, int *jit, void **jit_values,
                           unsigned jit_count, int *options, void **values, unsigned count) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !code || (jit_count && (!jit || !jit_values)) || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    struct library *library = calloc(1, sizeof *library);
    bool ptx = image_is_ptx(code);
    if (library && ptx)
        library->text = strdup(code);
    if (!library || (ptx && !library->text)) {
        free(library);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&driver.lock);
    library->next = libraries;
    libraries = library;
    pthread_mutex_unlock(&driver.lock);
    *out = library;
    return CUDA_SUCCESS;
}

/* A whole file with a NUL after it, or NULL. */
static char *read_file(const char *path) {
    FILE *file = fopen(path, "re");
    char *text = NULL;
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size >= 0 && (text = calloc(1, (size_t)size + 1))) {
        rewind(file);
        if (fread(text, 1, (size_t)size, file) != (size_t)size) {
            free(text);
            text = NULL;
        }
    }
    if (file)
        fclose(file);
    return text;
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, int *jit, void **jit_values,
                               unsigned jit_count, int *options, void **values, unsigned count) {
    char *code = path ? read_file(path) : NULL;
    if (!code)
        return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    CUresult rc = cuLibraryLoadData(out, code, jit, jit_values, jit_count, options, values, count);
    free(code);
    return rc;
}

CUresult cuModuleLoad(CUmodule *out, const char *path) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    char *image = path ? read_file(path) : NULL;
    if (!image)
        return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    rc = cuModuleLoadData(out, image);
    free(image);
    return rc;
}

/* Two threads that first use a kernel at the same time load it once. Taken outside driver.lock. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* The library's module in the current context, made when there is none. */
static CUresult load_locked(struct library *library, CUmodule *module) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    for (const struct loaded *at = library->loaded; at; at = at->next)
        if (at->context == context) {
            *module = at->module;
            return CUDA_SUCCESS;
        }
    struct loaded *loaded = calloc(1, sizeof *loaded);
    rc = loaded ? cuModuleLoadData(module, library->text ? library->text
                                                         : "\x7f"
                                                           "ELF")
                : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc != CUDA_SUCCESS) {
        free(loaded);
        return rc;
    }
    *loaded = (struct loaded){library->loaded, context, *module};
    library->loaded = loaded;
    return CUDA_SUCCESS;
}

static CUresult load(struct library *library, CUmodule *module) {
    pthread_mutex_lock(&loading);
    CUresult rc = load_locked(library, module);
    pthread_mutex_unlock(&loading);
    return rc;
}

CUresult library_use(CUfunction kernel) {
    CUmodule module;
    return kernel && kernel->library ? load(kernel->library, &module) : CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    struct function *found = is_library(library) ? library->kernels : NULL;
    while (found && strcmp(found->name, name) != 0)
        found = found->next;
    if (!is_library(library))
        rc = CUDA_ERROR_INVALID_HANDLE;
    else if (!image_is_name(name) || (library->text && !image_names(library->text, ".entry", name)))
        rc = CUDA_ERROR_NOT_FOUND;
    else if (!found && (found = function_new(name))) {
        found->library = library;
        found->next = library->kernels;
        library->kernels = found;
    }
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS)
        *out = found;
    return rc == CUDA_SUCCESS && !found ? CUDA_ERROR_OUT_OF_MEMORY : rc;
}

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !is_library(library))
        return out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    return load(library, out);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *out, size_t *bytes, CUlibrary library, const char *name) {
    CUmodule module;
    CUresult rc = cuLibraryGetModule(&module, library);
    return rc == CUDA_SUCCESS ? cuModuleGetGlobal_v2(out, bytes, module, name) : rc;
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel) {
    CUmodule module;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !is_kernel(kernel))
        return out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    rc = load(kernel->library, &module);
    return rc == CUDA_SUCCESS ? cuModuleGetFunction(out, module, kernel->name) : rc;
}

CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device) {
    uint32_t card;
    CUresult rc = device_card(device, &card);
    if (rc == CUDA_SUCCESS && !is_kernel(kernel))
        rc = CUDA_ERROR_INVALID_HANDLE;
    return rc == CUDA_SUCCESS ? cuFuncGetAttribute(value, attribute, kernel) : rc;
}

/* The library's modules go with it, where their contexts still live. */
CUresult cuLibraryUnload(CUlibrary library) {
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    struct library **link = &libraries;
    while (*link && *link != library)
        link = &(*link)->next;
    if (*link)
        *link = library->next;
    else
        rc = CUDA_ERROR_INVALID_HANDLE;
    while (rc == CUDA_SUCCESS && library->loaded) {
        struct loaded *next = library->loaded->next;
        if (!library->loaded->context->destroyed)
            module_unload(library->loaded->module);
        free(library->loaded);
        library->loaded = next;
    }
    pthread_mutex_unlock(&driver.lock);
    while (rc == CUDA_SUCCESS && library->kernels) {
        struct function *next = library->kernels->next;
        free(library->kernels);
        library->kernels = next;
    }
    if (rc == CUDA_SUCCESS) {
        free(library->text);
        free(library);
    }
    return rc;
}
