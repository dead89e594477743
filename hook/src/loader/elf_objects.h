/* Loaded objects as the dynamic loader lists them, and the symbols that they define. */
#ifndef HOOK_ELF_OBJECTS_H
#define HOOK_ELF_OBJECTS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_object {
    uintptr_t base;
    const ElfW(Phdr) * segments;
    unsigned segment_count;
    const ElfW(Dyn) * dynamic;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    const char *soname; /* NULL: has none */
};

/* libc's own dl_iterate_phdr. */
void elf_objects_visit(int (*visit)(struct dl_phdr_info *, size_t, void *), void *argument);

/* Fills `object` from an entry of elf_objects_visit; false for one without dynamic symbols. The
 * result is good while that call lasts: it keeps dlclose away. */
bool elf_object_open(struct elf_object *object, const struct dl_phdr_info *info);
bool elf_object_is_named(const struct elf_object *object, const char *soname);
bool elf_object_contains(const struct elf_object *object, const void *address);
void *elf_object_symbol(const struct elf_object *object, const char *name);

/* The definition of `name` in the loaded object with this SONAME, or NULL. */
void *elf_objects_find(const char *soname, const char *name);
/* The place in load order of the object that holds `address`; -1: no object does. */
int elf_objects_position(const void *address);
bool text_equal(const char *one, const char *other);

#endif
