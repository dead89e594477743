#include "loader/drivers.h"

#include <stddef.h>

#include "loader/elf_objects.h"
#include "loader/entry_points.h"

#define LOADER_GATE(name)
#define CUDA_REAL CUDA_GATE
#define NVML_REAL NVML_GATE

/* Texts in one piece and where each begins in it: pointers to them would have to be relocated in
 * every process, as entry_points_table.S says of the gates. */
#define NVML_GATE CUDA_GATE
#define CUDA_GATE(name, ...) char name[sizeof #name];
struct symbol_names {
#include "symbols.def"
};
#undef CUDA_GATE
#define CUDA_GATE(name, ...) .name = #name,
static const struct symbol_names names = {
#include "symbols.def"
};
#undef CUDA_GATE
#undef NVML_GATE

#define PLACE(name, kind) [SYMBOL_##name] = {offsetof(struct symbol_names, name), kind},
#define CUDA_GATE(name, ...) PLACE(name, DRIVER_CUDA)
#define NVML_GATE(name, ...) PLACE(name, DRIVER_NVML)
static const struct {
    uint16_t name, kind;
} symbols[SYMBOL_COUNT] = {
#include "symbols.def"
};

_Static_assert(sizeof names <= UINT16_MAX, "a name's place fits its field");

static const char *name_of(unsigned symbol) { return (const char *)&names + symbols[symbol].name; }

static const char *const sonames[DRIVER_KINDS] = {CUDA_SONAME, NVML_SONAME};

/* Written in the callback of elf_objects_visit only: its lock is the writers' lock. The guarded
 * words are atomic too, for a thread sanitizer sees no locks inside libc. */
static struct {
    struct driver drivers[DRIVER_KINDS][DRIVER_COPIES];
    _Atomic unsigned long long adds, subs;
} registry;

static void driver_fill(struct driver *driver, enum driver_kind kind,
                        const struct elf_object *object) {
    for (unsigned i = 0; i < SYMBOL_COUNT; i++) {
        if (symbols[i].kind == kind) {
            atomic_store(&driver->real[i], elf_object_symbol(object, name_of(i)));
        }
    }
    atomic_store(&driver->base, object->base);
}

static void driver_clear(struct driver *driver) {
    atomic_store(&driver->base, 0);
    for (unsigned i = 0; i < SYMBOL_COUNT; i++) {
        atomic_store(&driver->real[i], NULL);
    }
}

struct scan {
    bool begun;
    uint8_t seen[DRIVER_KINDS][DRIVER_COPIES];
};

static void scan_object(struct scan *scan, enum driver_kind kind, const struct elf_object *object) {
    struct driver *copies = registry.drivers[kind];
    unsigned number = 0;
    while (number < DRIVER_COPIES && atomic_load(&copies[number].base) != object->base) {
        number++;
    }
    if (number == DRIVER_COPIES) {
        number = 0;
        while (number < DRIVER_COPIES && atomic_load(&copies[number].base) != 0) {
            number++;
        }
    }
    if (number < DRIVER_COPIES) {
        driver_fill(&copies[number], kind, object);
        scan->seen[kind][number] = 1;
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    struct scan *scan = argument;
    struct elf_object object;
    if (!scan->begun) {
        if (info->dlpi_adds == atomic_load(&registry.adds) &&
            info->dlpi_subs == atomic_load(&registry.subs)) {
            return 1;
        }
        scan->begun = true;
        atomic_store(&registry.adds, info->dlpi_adds);
        atomic_store(&registry.subs, info->dlpi_subs);
    }
    for (unsigned kind = 0; kind < DRIVER_KINDS; kind++) {
        if (elf_object_open(&object, info) && elf_object_is_named(&object, sonames[kind])) {
            scan_object(scan, (enum driver_kind)kind, &object);
        }
    }
    return 0;
}

/* The outer callback of a scan: an unloaded object leaves the table under the same lock. */
static int visit_all(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)info;
    (void)size;
    struct scan *scan = argument;
    elf_objects_visit(visit, scan);
    for (unsigned kind = 0; scan->begun && kind < DRIVER_KINDS; kind++) {
        for (unsigned number = 0; number < DRIVER_COPIES; number++) {
            struct driver *driver = &registry.drivers[kind][number];
            if (!scan->seen[kind][number] && atomic_load(&driver->base) != 0) {
                driver_clear(driver);
            }
        }
    }
    return 1;
}

void drivers_scan(void) {
    struct scan scan = {.begun = false};
    elf_objects_visit(visit_all, &scan);
}

struct driver *driver_with(enum driver_kind kind, unsigned number, enum symbol symbol) {
    struct driver *driver = &registry.drivers[kind][number];
    if (atomic_load(&driver->base) == 0) {
        drivers_scan(); /* a program that is linked with the driver never asked dlsym for it */
    }
    return atomic_load(&driver->real[symbol]) == NULL ? NULL : driver;
}

void *drivers_route(void *address) {
    if (address == NULL) {
        return NULL;
    }
    for (unsigned i = 0; i < SYMBOL_COUNT; i++) {
        for (unsigned number = 0; number < DRIVER_COPIES; number++) {
            struct driver *driver = &registry.drivers[symbols[i].kind][number];
            void *gate = entry_point_address((enum symbol)i, number);
            if (gate != NULL && atomic_load(&driver->real[i]) == address) {
                return gate;
            }
        }
    }
    return address;
}

bool drivers_gate(const char *name) {
    for (unsigned i = 0; i < SYMBOL_COUNT; i++) {
        if (text_equal(name, name_of(i))) {
            return entry_point_address((enum symbol)i, 0) != NULL;
        }
    }
    return false;
}

bool drivers_own(const void *address) {
    for (unsigned i = 0; i < SYMBOL_COUNT; i++) {
        if (address == entry_point_address((enum symbol)i, 0)) {
            return address != NULL;
        }
    }
    return false;
}

struct stray {
    const void *address;
    bool found;
};

static bool is_known(const struct elf_object *object) {
    for (unsigned kind = 0; kind < DRIVER_KINDS; kind++) {
        for (unsigned number = 0; number < DRIVER_COPIES; number++) {
            if (atomic_load(&registry.drivers[kind][number].base) == object->base) {
                return true;
            }
        }
    }
    return false;
}

static int visit_stray(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    struct stray *stray = argument;
    struct elf_object object;
    if (!elf_object_open(&object, info) || !elf_object_contains(&object, stray->address)) {
        return 0;
    }
    bool is_driver =
        elf_object_is_named(&object, CUDA_SONAME) || elf_object_is_named(&object, NVML_SONAME);
    stray->found = is_driver && !is_known(&object);
    return 1;
}

bool drivers_is_stray(const void *address) {
    struct stray stray = {.address = address};
    if (address != NULL) {
        elf_objects_visit(visit_stray, &stray);
    }
    return stray.found;
}
