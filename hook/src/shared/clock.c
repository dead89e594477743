#include "shared/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <time.h>

#include "loader/elf_objects.h"
#include "shared/sys.h"

#ifdef __x86_64__
#define VDSO_NAME "__vdso_clock_gettime"
#else
#define VDSO_NAME "__kernel_clock_gettime"
#endif

/* The kernel gives a process some twenty entries. */
enum { MAX_AUXILIARY = 64 };

typedef int get_time_fn(clockid_t clock, struct timespec *time);

static int get_time_by_call(clockid_t clock, struct timespec *time) {
    return (int)sys_call(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0);
}

/* NULL where the kernel has none, or /proc isn't there. */
static const ElfW(Ehdr) * find_vdso(void) {
    ElfW(auxv_t) entries[MAX_AUXILIARY];
    int fd = sys_open("/proc/self/auxv", O_RDONLY);
    long bytes = fd < 0 ? 0 : sys_read(fd, entries, sizeof entries);
    if (fd >= 0) {
        sys_close(fd);
    }
    for (size_t i = 0; (long)((i + 1) * sizeof *entries) <= bytes; i++) {
        if (entries[i].a_type == AT_SYSINFO_EHDR) {
            return (const ElfW(Ehdr) *)entries[i].a_un.a_val;
        }
    }
    return NULL;
}

static void *find_in_vdso(const char *name) {
    const ElfW(Ehdr) *vdso = find_vdso();
    if (vdso == NULL) {
        return NULL;
    }
    struct dl_phdr_info info = {.dlpi_addr = (ElfW(Addr))vdso,
                                .dlpi_phdr = (const void *)((ElfW(Addr))vdso + vdso->e_phoff),
                                .dlpi_phnum = vdso->e_phnum};
    struct elf_object object;
    return elf_object_open(&object, &info) ? elf_object_symbol(&object, name) : NULL;
}

/* The kernel's own code for it, which lies in each process: no system call is needed. Where it
 * lies, the kernel says: libraries of LD_PRELOAD stand before the loader's list as well. */
static get_time_fn *find_get_time(void) {
    static void *_Atomic known;
    void *found = atomic_load(&known);
    if (found == NULL) {
        found = find_in_vdso(VDSO_NAME);
        found = found == NULL ? (void *)get_time_by_call : found;
        atomic_store(&known, found);
    }
    return (get_time_fn *)found;
}

static uint64_t read_clock(clockid_t clock) {
    struct timespec time = {.tv_sec = 0};
    find_get_time()(clock, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

uint64_t clock_now(void) { return read_clock(CLOCK_MONOTONIC); }

uint64_t clock_now_coarse(void) { return read_clock(CLOCK_MONOTONIC_COARSE); }

uint64_t clock_wall_us(void) { return read_clock(CLOCK_REALTIME) / NS_PER_US; }

void clock_sleep_until(uint64_t ns) {
    struct timespec until = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    sys_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)&until, 0, 0, 0);
}
