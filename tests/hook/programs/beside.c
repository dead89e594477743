/*
 * A tenant's library for LD_PRELOAD: maps the container's real files, which lie in /tmp, so that
 * the process's maps name them, while the hook finds other files at their paths.
 */
#include <fcntl.h>
#include <sys/mman.h>

static const char *const REAL[] = {"/tmp/limits", "/tmp/activity", "/tmp/ledger"};

__attribute__((constructor)) static void begin(void) {
    for (int i = 0; i < 3; i++) {
        mmap(0, 4096, PROT_READ, MAP_SHARED, open(REAL[i], O_RDONLY), 0);
    }
}
