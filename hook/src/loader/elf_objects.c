/*
 * Reads the loader's lists instead of asking dlsym: the hook stands in for dlsym, and needs an
 * object's own definition, not the first that a search meets.
 */
#include "loader/elf_objects.h"

#include <stdatomic.h>

typedef int visit_fn(struct dl_phdr_info *info, size_t size, void *argument);
typedef int iterate_fn(visit_fn *visit, void *argument);

bool text_equal(const char *one, const char *other) {
    while (*one != '\0' && *one == *other) {
        one++;
        other++;
    }
    return *one == *other;
}

/* glibc relocates these entries in place, save in objects that it may not write (the vDSO). */
static const void *dynamic_pointer(const struct elf_object *object, const ElfW(Dyn) * entry) {
    uintptr_t value = entry->d_un.d_ptr;
    return (const void *)(value < object->base ? object->base + value : value);
}

/* False where the object has no symbols. */
static bool read_dynamic(struct elf_object *object) {
    const ElfW(Dyn) *soname = NULL;
    for (const ElfW(Dyn) *entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) {
            object->symbols = dynamic_pointer(object, entry);
        } else if (entry->d_tag == DT_STRTAB) {
            object->strings = dynamic_pointer(object, entry);
        } else if (entry->d_tag == DT_GNU_HASH) {
            object->gnu_hash = dynamic_pointer(object, entry);
        } else if (entry->d_tag == DT_HASH) {
            object->sysv_hash = dynamic_pointer(object, entry);
        } else if (entry->d_tag == DT_SONAME) {
            soname = entry;
        }
    }
    if (object->symbols == NULL || object->strings == NULL) {
        return false;
    }
    object->soname = soname == NULL ? NULL : object->strings + soname->d_un.d_val;
    return true;
}

bool elf_object_open(struct elf_object *object, const struct dl_phdr_info *info) {
    *object = (struct elf_object){
        .base = info->dlpi_addr, .segments = info->dlpi_phdr, .segment_count = info->dlpi_phnum};
    for (unsigned i = 0; i < object->segment_count; i++) {
        if (object->segments[i].p_type == PT_DYNAMIC) {
            object->dynamic = (const ElfW(Dyn) *)(object->base + object->segments[i].p_vaddr);
        }
    }
    return object->dynamic != NULL && read_dynamic(object);
}

bool elf_object_is_named(const struct elf_object *object, const char *soname) {
    return object->soname != NULL && text_equal(object->soname, soname);
}

bool elf_object_contains(const struct elf_object *object, const void *address) {
    for (unsigned i = 0; i < object->segment_count; i++) {
        const ElfW(Phdr) *segment = &object->segments[i];
        uintptr_t start = object->base + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (uintptr_t)address - start < segment->p_memsz) {
            return true;
        }
    }
    return false;
}

static void *definition(const struct elf_object *object, uint32_t index, const char *name) {
    const ElfW(Sym) *symbol = &object->symbols[index];
    bool defined = symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0;
    if (!defined || !text_equal(object->strings + symbol->st_name, name)) {
        return NULL;
    }
    return (void *)(object->base + symbol->st_value);
}

/* Layout: bucket count, first symbol, Bloom filter words, shift; filter; buckets; chains. */
static void *gnu_lookup(const struct elf_object *object, const char *name) {
    const uint32_t *table = object->gnu_hash;
    uint32_t bucket_count = table[0], first = table[1];
    const uint32_t *buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + bucket_count;
    uint32_t hash = 5381;
    for (const char *c = name; *c != '\0'; c++) {
        hash = hash * 33 + (uint8_t)*c;
    }
    uint32_t index = bucket_count == 0 ? 0 : buckets[hash % bucket_count];
    if (index < first) {
        return NULL;
    }
    for (;; index++) {
        uint32_t entry = chains[index - first];
        void *value = (entry | 1) == (hash | 1) ? definition(object, index, name) : NULL;
        if (value != NULL || (entry & 1) != 0) {
            return value;
        }
    }
}

static void *sysv_lookup(const struct elf_object *object, const char *name) {
    uint32_t bucket_count = object->sysv_hash[0];
    const uint32_t *buckets = object->sysv_hash + 2;
    const uint32_t *chains = buckets + bucket_count;
    uint32_t hash = 0;
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash << 4) + (uint8_t)*c;
        hash = (hash ^ ((hash & 0xf0000000) >> 24)) & 0x0fffffff;
    }
    uint32_t index = bucket_count == 0 ? STN_UNDEF : buckets[hash % bucket_count];
    for (; index != STN_UNDEF; index = chains[index]) {
        void *value = definition(object, index, name);
        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}

void *elf_object_symbol(const struct elf_object *object, const char *name) {
    if (object->gnu_hash != NULL) {
        return gnu_lookup(object, name);
    }
    return object->sysv_hash == NULL ? NULL : sysv_lookup(object, name);
}

#pragma weak _r_debug /* of the loader; programs aren't linked with it */

/* The loader lists the program's first objects first, libc among them, and unloads none of those:
 * so the way to libc needs no lock. */
static void *find_in_libc(const char *name) {
    const struct link_map *map = &_r_debug == NULL ? NULL : _r_debug.r_map;
    for (; map != NULL; map = map->l_next) {
        struct elf_object object = {.base = map->l_addr, .dynamic = map->l_ld};
        if (read_dynamic(&object) && elf_object_is_named(&object, "libc.so.6")) {
            return elf_object_symbol(&object, name);
        }
    }
    return NULL;
}

/* Another library's function of that name may stand before libc's: a thread sanitizer's does, and
 * isn't ready while it asks dlsym for the function that it stands before. */
void elf_objects_visit(visit_fn *visit, void *argument) {
    static void *_Atomic known;
    void *iterate = atomic_load(&known);
    if (iterate == NULL) {
        iterate = find_in_libc("dl_iterate_phdr");
        iterate = iterate == NULL ? (void *)dl_iterate_phdr : iterate;
        atomic_store(&known, iterate);
    }
    ((iterate_fn *)iterate)(visit, argument);
}

struct search {
    const char *soname, *name;
    const void *address;
    void *found;
    int position, found_position;
};

static int visit_named(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    struct search *search = argument;
    struct elf_object object;
    if (elf_object_open(&object, info) && elf_object_is_named(&object, search->soname)) {
        search->found = elf_object_symbol(&object, search->name);
    }
    return search->found != NULL;
}

void *elf_objects_find(const char *soname, const char *name) {
    struct search search = {.soname = soname, .name = name};
    elf_objects_visit(visit_named, &search);
    return search.found;
}

static int visit_position(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    struct search *search = argument;
    struct elf_object object;
    if (elf_object_open(&object, info) && elf_object_contains(&object, search->address)) {
        search->found_position = search->position;
        return 1;
    }
    search->position++;
    return 0;
}

int elf_objects_position(const void *address) {
    struct search search = {.address = address, .found_position = -1};
    elf_objects_visit(visit_position, &search);
    return search.found_position;
}
