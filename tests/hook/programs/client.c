/*
 * A tenant's program: takes memory of card 0 in one of several ways, and says what it met.
 *
 *   client WAY MIB [hold]
 *
 * Prints "TOTAL_MIB RESULT": what cuMemGetInfo calls the card, and how the request for MIB ended.
 * With "hold" it then waits until its input ends. WAY is how it finds the driver's functions:
 * "soname", "path:FILE"  "walk" (the library's own symbol table), "namespace" (dlmopen),
 * "plugin:FILE" (which is opened with RTLD_DEEPBIND); or the process that does it: "fork",
 * "vfork", "clone", "exec", "parent" (a child, after this process has used the card) do as
 * "soname".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *find_fn(void *library, const char *name);

static const char *way_argument(const char *way, const char *kind) {
    size_t length = strlen(kind);
    return strncmp(way, kind, length) == 0 && way[length] == ':' ? way + length + 1 : NULL;
}

static void *opened(void *library) {
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(3);
    }
    return library;
}

static void *plainly(void *library, const char *name) { return dlsym(library, name); }

#ifdef __GLIBC__
/* In the files that linkers make, names lie behind the symbols. */
static void *by_walking(void *library, const char *name) {
    struct link_map *map;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) {
        return NULL;
    }
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) {
            symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
        } else if (entry->d_tag == DT_STRTAB) {
            names = (const char *)entry->d_un.d_ptr;
        }
    }
    for (const ElfW(Sym) *each = symbols; (const char *)each < names; each++) {
        if (each->st_shndx != SHN_UNDEF && strcmp(names + each->st_name, name) == 0) {
            return (void *)(map->l_addr + each->st_value);
        }
    }
    return NULL;
}
#endif

static find_fn *choose(const char *way, void **library) {
    const char *path = way_argument(way, "path");
#ifdef __GLIBC__
    if (strcmp(way, "namespace") == 0) {
        *library = opened(dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW));
        return plainly;
    }
    const char *plugin = way_argument(way, "plugin");
    if (plugin != NULL) {
        *library = opened(dlopen("libcuda.so.1", RTLD_NOW));
        void *opener = opened(dlopen(plugin, RTLD_NOW | RTLD_DEEPBIND));
        return (find_fn *)dlsym(opener, "plugin_find");
    }
    if (strcmp(way, "walk") == 0) {
        *library = opened(dlopen("libcuda.so.1", RTLD_NOW));
        return by_walking;
    }
#endif
    if (path != NULL) {
        *library = opened(dlopen(path, RTLD_NOW));
        return plainly;
    }
    *library = opened(dlopen("libcuda.so.1", RTLD_NOW));
    return plainly;
}

static void use(const char *way, size_t mib) {
    void *library, *context;
    uint64_t pointer = 0;
    size_t available = 0, total = 0;
    find_fn *find = choose(way, &library);
    int (*init)(unsigned) = (int (*)(unsigned))find(library, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))find(library, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))find(library, "cuCtxSetCurrent");
    int (*info)(size_t *, size_t *) = (int (*)(size_t *, size_t *))find(library, "cuMemGetInfo_v2");
    int (*take)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))find(library, "cuMemAlloc_v2");
    int result = init(0);
    result = result == 0 ? retain(&context, 0) : result;
    result = result == 0 ? set(context) : result;
    result = result == 0 ? info(&available, &total) : result;
    result = result == 0 ? take(&pointer, mib << 20) : result;
    printf("%zu %d\n", total >> 20, result);
    fflush(stdout);
}

static void exec_self(char **argv) {
    char *arguments[] = {argv[0], (char *)"soname", argv[2], NULL};
    execv("/proc/self/exe", arguments);
    execv(argv[0], arguments);
    _exit(4);
}

static int in_child(const char *who, char **argv) {
    size_t mib = strtoul(argv[2], NULL, 10);
    if (strcmp(who, "parent") == 0) {
        use("soname", 1);
    }
    pid_t child;
    if (strcmp(who, "vfork") == 0) {
        child = vfork();
    } else if (strcmp(who, "clone") == 0) {
        child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    } else {
        child = fork();
    }
    if (child == 0) {
        if (strcmp(who, "vfork") == 0 || strcmp(who, "exec") == 0 || strcmp(who, "parent") == 0) {
            exec_self(argv);
        }
        use("soname", mib);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
    static const char *const children[] = {"fork", "vfork", "clone", "exec", "parent"};
    if (argc < 3) {
        fprintf(stderr, "usage: %s WAY MIB [hold]\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        if (strcmp(argv[1], children[i]) == 0) {
            return in_child(argv[1], argv);
        }
    }
    use(argv[1], strtoul(argv[2], NULL, 10));
    if (argc > 3) {
        getchar();
    }
    return 0;
}
