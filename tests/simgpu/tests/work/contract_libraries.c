/* Promises of the driver to CUDA programs: libraries, which belong to no context. */
#include <unistd.h>

#include "checks.h"

static const char ptx[] = ".version 8.0\n.target sm_80\n.visible .global .align 4 .u32 counter;\n"
                          ".visible .entry step_3ms(\n.param .u64 a\n)\n{ ret; }\n";

static CUlibrary loaded(void) {
    CUlibrary library;
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static void a_library_needs_no_context(void) {
    CUkernel known, unknown;
    CUfunction function;
    OK(cuInit(0));
    CUlibrary library = loaded();
    OK(cuLibraryGetKernel(&known, library, "step_3ms"));
    EXPECT_RC(cuLibraryGetKernel(&unknown, library, "counter"), CUDA_ERROR_NOT_FOUND);
    EXPECT_RC(cuKernelGetFunction(&function, known), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuLibraryUnload(library));
    EXPECT_RC(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}

static void a_kernel_is_loaded_where_it_is_first_used(void) {
    CUkernel kernel_handle;
    CUfunction function;
    new_context(0);
    CUlibrary library = loaded();
    size_t before = free_bytes();
    OK(cuLibraryGetKernel(&kernel_handle, library, "step_3ms"));
    EXPECT(free_bytes() == before);
    double began = now_seconds();
    launch(kernel_handle, NULL); /* documented: a kernel may be launched as a function */
    EXPECT(before - free_bytes() == 2 * MIB);
    OK(cuKernelGetFunction(&function, kernel_handle));
    launch(function, NULL);
    OK(cuCtxSynchronize());
    EXPECT(now_seconds() - began >= 0.006);
    EXPECT(before - free_bytes() == 2 * MIB); /* once a context */
    new_context(1);
    before = free_bytes();
    launch(kernel_handle, NULL);
    EXPECT(before - free_bytes() == 2 * MIB);
    OK(cuLibraryUnload(library));
    EXPECT(free_bytes() == before);
}

static void a_library_has_globals(void) {
    CUdeviceptr address;
    size_t bytes;
    new_context(0);
    OK(cuLibraryGetGlobal(&address, &bytes, loaded(), "counter"));
    OK(cuMemsetD32_v2(address, 1, 1));
}

static void code_comes_from_files_too(void) {
    CUmodule module;
    CUlibrary library;
    CUfunction function;
    char path[] = "/tmp/simgpu-XXXXXX";
    new_context(0);
    int fd = mkstemp(path);
    EXPECT(fd >= 0 && write(fd, ptx, sizeof ptx - 1) == sizeof ptx - 1);
    close(fd);
    CUresult first = cuModuleLoad(&module, path);
    CUresult second = cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0);
    unlink(path);
    EXPECT(first == CUDA_SUCCESS && second == CUDA_SUCCESS);
    OK(cuModuleGetFunction(&function, module, "step_3ms"));
    EXPECT_RC(cuModuleLoad(&module, path), CUDA_ERROR_FILE_NOT_FOUND);
}

static const struct check checks[] = {
    CHECK(a_library_needs_no_context),
    CHECK(a_kernel_is_loaded_where_it_is_first_used),
    CHECK(a_library_has_globals),
    CHECK(code_comes_from_files_too),
};

int main(int argc, char **argv) {
    return run_check(checks, sizeof checks / sizeof checks[0], argc, argv);
}
