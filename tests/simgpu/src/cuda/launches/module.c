/* Modules, functions and globals.
 *
 * An image of any kind is taken (fatbin, cubin, PTX). In PTX text a function or variable must
 * occur as `.entry NAME` or `.global … NAME`; in a binary every valid name exists. A module takes
 * one granule of the card, without any allocation call: the hook sees that memory in NVML only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api.h"
#include "image.h"

#define GLOBAL_BYTES 4096

struct global {
    struct global *next;
    char name[256];
    uint64_t address;
};

struct module {
    struct module *next;
    struct context *context;
    char *text; /* PTX, else NULL */
    struct function *functions;
    struct global *globals;
};

/* In PTX `.extern .func (.param .b64 func_retval0) malloc` and its calls. */
static bool calls_malloc(const char *text) {
    for (const char *at = strstr(text, "malloc"); at; at = strstr(at + 1, "malloc"))
        if (!image_is_name((char[2]){at > text ? at[-1] : ' ', '\0'}) &&
            !image_is_name((char[2]){at[strlen("malloc")], '\0'}))
            return true;
    return false;
}

/* Code that calls the device's malloc needs a heap. In a binary we don't look. */
static CUresult take_heap(struct context *context, const char *text) {
    if (!text || !calls_malloc(text))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&driver.lock);
    CUresult rc = limits_load_module(context);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

CUresult cuModuleLoadData(CUmodule *out, const void *image) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    rc = take_heap(context, image_is_ptx(image) ? image : NULL);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct module *module = calloc(1, sizeof *module);
    char *text = module && image_is_ptx(image) ? strdup(image) : NULL;
    if (module && sim_memory_take(driver.state, driver.client, context->card, GRANULE_BYTES)) {
        pthread_mutex_lock(&driver.lock);
        *module = (struct module){.next = context->modules, .context = context, .text = text};
        context->modules = module;
        pthread_mutex_unlock(&driver.lock);
        *out = module;
        return CUDA_SUCCESS;
    }
    free(text);
    free(module);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, int *options,
                            void **values) {
    if (count > 0 && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    return cuModuleLoadData(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image) {
    return cuModuleLoadData(out, image);
}

static void free_module(struct module *module) {
    while (module->functions) {
        struct function *next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    while (module->globals) {
        struct global *next = module->globals->next;
        munmap((void *)(uintptr_t)module->globals->address, GLOBAL_BYTES);
        memory_remove(module->globals->address);
        free(module->globals);
        module->globals = next;
    }
    sim_memory_give(driver.state, driver.client, module->context->card, GRANULE_BYTES);
    free(module->text);
    free(module);
}

static struct module **find_link(CUmodule handle) {
    for (struct context *context = driver.contexts; context; context = context->next)
        for (struct module **link = &context->modules; *link; link = &(*link)->next)
            if (*link == handle)
                return link;
    return NULL;
}

bool module_unload(CUmodule handle) {
    struct module **link = find_link(handle);
    if (link) {
        *link = handle->next;
        free_module(handle);
    }
    return link != NULL;
}

CUresult cuModuleUnload(CUmodule handle) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    bool found = module_unload(handle);
    pthread_mutex_unlock(&driver.lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void modules_drop(struct context *context) {
    while (context->modules) {
        struct module *next = context->modules->next;
        free_module(context->modules);
        context->modules = next;
    }
}

static struct function *new_function(struct module *module, const char *name) {
    struct function *function = function_new(name);
    if (!function)
        return NULL;
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    return function;
}

static CUresult get_function(CUfunction *out, CUmodule module, const char *name) {
    if (!find_link(module))
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct function *at = module->functions; at; at = at->next)
        if (strcmp(at->name, name) == 0) {
            *out = at;
            return CUDA_SUCCESS;
        }
    if (!image_is_name(name) || (module->text && !image_names(module->text, ".entry", name)))
        return CUDA_ERROR_NOT_FOUND;
    struct function *function = new_function(module, name);
    if (!function)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = function;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!out || !module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    rc = get_function(out, module, name);
    pthread_mutex_unlock(&driver.lock);
    return rc;
}

/* A variable lies in the module's granule; its size is not known here, so all have 4 KiB. Below
 * 4 GiB, so that both interfaces' addresses reach it. */
static CUresult new_global(struct module *module, const char *name, uint64_t *address) {
    struct global *global = calloc(1, sizeof *global);
    void *at = heap_map(GLOBAL_BYTES, true);
    struct memory memory = {
        .base = (uintptr_t)at, .bytes = GLOBAL_BYTES, .kind = MEMORY_REGISTERED};
    if (!global || !at || !memory_add(&memory)) {
        if (at)
            munmap(at, GLOBAL_BYTES);
        free(global);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    snprintf(global->name, sizeof global->name, "%s", name);
    *address = global->address = memory.base;
    global->next = module->globals;
    module->globals = global;
    return CUDA_SUCCESS;
}

static CUresult get_global(CUmodule module, const char *name, uint64_t *address) {
    if (!find_link(module))
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct global *at = module->globals; at; at = at->next)
        if (strcmp(at->name, name) == 0) {
            *address = at->address;
            return CUDA_SUCCESS;
        }
    if (!image_is_name(name) || (module->text && !image_names(module->text, ".global", name)))
        return CUDA_ERROR_NOT_FOUND;
    return new_global(module, name, address);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module, const char *name) {
    struct context *context;
    uint64_t address = 0;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    rc = get_global(module, name, &address);
    pthread_mutex_unlock(&driver.lock);
    if (rc == CUDA_SUCCESS && out)
        *out = address;
    if (rc == CUDA_SUCCESS && bytes)
        *bytes = GLOBAL_BYTES;
    return rc;
}

CUresult cuModuleGetGlobal(CUdeviceptr_v1 *out, unsigned *bytes, CUmodule module,
                           const char *name) {
    CUdeviceptr address = 0;
    CUresult rc = cuModuleGetGlobal_v2(&address, NULL, module, name);
    if (rc == CUDA_SUCCESS && out)
        *out = (CUdeviceptr_v1)address;
    if (rc == CUDA_SUCCESS && bytes)
        *bytes = GLOBAL_BYTES;
    return rc;
}

/* 2: lazy loading, the default since CUDA 12.2 on Linux. */
CUresult cuModuleGetLoadingMode(int *mode) {
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = 2;
    return CUDA_SUCCESS;
}
