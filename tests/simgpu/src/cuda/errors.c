/* Results by name and in words. Both work before cuInit. */
#include "api.h"

static const struct {
    CUresult value;
    const char *name, *text;
} results[] = {
#define RESULT(name, value, text) {CUDA_##name, "CUDA_" #name, text},
#include "results.def"
#undef RESULT
};

static CUresult describe(CUresult error, const char **text, int by_name) {
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (results[i].value == error)
            *text = by_name ? results[i].name : results[i].text;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **name) { return describe(error, name, 1); }

CUresult cuGetErrorString(CUresult error, const char **text) { return describe(error, text, 0); }
