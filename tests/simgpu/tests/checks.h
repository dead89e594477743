/* Named checks, each run in a process of its own: PROGRAM NAME. Without a name: the list. */
#ifndef SIMGPU_CHECKS_H
#define SIMGPU_CHECKS_H

#include <string.h>

#include "client.h"

struct check {
    const char *name;
    void (*run)(void);
};

#define CHECK(name) {#name, name}

static inline int run_check(const struct check *checks, size_t count, int argc, char **argv) {
    for (size_t i = 0; i < count; i++) {
        if (argc < 2)
            puts(checks[i].name);
        else if (strcmp(argv[1], checks[i].name) == 0)
            return checks[i].run(), 0;
    }
    return argc < 2 ? 0 : 2;
}

#endif
