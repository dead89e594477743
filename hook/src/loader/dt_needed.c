#include "loader/dt_needed.h"

#include "loader/elf_objects.h"

enum { MAX_OBJECTS = 1024, WORD_BITS = 64 };

struct walk {
    const void *address; /* in the object that the walk starts from */
    const char *soname;
    const char *name;
    uint64_t reached[MAX_OBJECTS / WORD_BITS]; /* by position in load order */
    uint64_t expanded[MAX_OBJECTS / WORD_BITS];
    unsigned position;
    bool grown;
    const char *wanted; /* of the inner search */
    void *found;
};

static bool is_set(const uint64_t *set, unsigned position) {
    return position < MAX_OBJECTS && (set[position / WORD_BITS] >> (position % WORD_BITS) & 1) != 0;
}

static void set_bit(uint64_t *set, unsigned position) {
    if (position < MAX_OBJECTS) {
        set[position / WORD_BITS] |= UINT64_C(1) << (position % WORD_BITS);
    }
}

static int visit_start(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    struct walk *walk = argument;
    struct elf_object object;
    if (elf_object_open(&object, info) && elf_object_contains(&object, walk->address)) {
        set_bit(walk->reached, walk->position);
        return 1;
    }
    walk->position++;
    return 0;
}

static int visit_wanted(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    struct walk *walk = argument;
    struct elf_object object;
    if (elf_object_open(&object, info) && elf_object_is_named(&object, walk->wanted)) {
        walk->grown |= !is_set(walk->reached, walk->position);
        set_bit(walk->reached, walk->position);
        return 1;
    }
    walk->position++;
    return 0;
}

static void expand(struct walk *walk, const struct elf_object *object) {
    for (const ElfW(Dyn) *entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_NEEDED) {
            walk->wanted = object->strings + entry->d_un.d_val;
            walk->position = 0;
            elf_objects_visit(visit_wanted, walk);
        }
    }
}

static int visit_reached(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    struct walk *walk = argument;
    struct elf_object object;
    unsigned position = walk->position;
    bool due = is_set(walk->reached, position) && !is_set(walk->expanded, position);
    if (due && elf_object_open(&object, info)) {
        if (elf_object_is_named(&object, walk->soname)) {
            walk->found = elf_object_symbol(&object, walk->name);
        }
        set_bit(walk->expanded, position);
        expand(walk, &object);
    }
    walk->position = position + 1;
    return walk->found != NULL;
}

/* Runs as the callback of one outer elf_objects_visit: its lock keeps the order as it is. */
static int walk_all(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)info;
    (void)size;
    struct walk *walk = argument;
    elf_objects_visit(visit_start, walk);
    do {
        walk->grown = false;
        walk->position = 0;
        elf_objects_visit(visit_reached, walk);
    } while (walk->grown && walk->found == NULL);
    return 1;
}

void *dt_needed_find(const void *address, const char *soname, const char *name) {
    struct walk walk = {.address = address, .soname = soname, .name = name};
    elf_objects_visit(walk_all, &walk);
    return walk.found;
}
