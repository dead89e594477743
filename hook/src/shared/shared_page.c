/*
 * Reads the two-slot pages. Both are mounted read-only and never resized by the agent; where a page
 * is truncated nevertheless, its last content stands. The copy is taken first and checked after:
 * the writer may be at work.
 */
#include "shared/shared_page.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "shared/sys.h"

_Static_assert(offsetof(struct vcuda_activity_file, slots) ==
                   offsetof(struct vcuda_limits_file, slots),
               "both pages have their slots in the same place");
_Static_assert(sizeof(struct vcuda_activity_slot) == sizeof(struct vcuda_limits_slot),
               "and of the same size");

/* The writer publishes twice during one copy only if this thread was off the processor for long. */
enum { READ_ATTEMPTS = 4 };

uint32_t crc32_ieee(uint32_t crc, const void *data, size_t length) {
    const uint8_t *bytes = data;
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1)));
        }
    }
    return ~crc;
}

static const void *map_file(const char *path) {
    int fd = sys_open(path, O_RDONLY);
    if (fd < 0) {
        return NULL;
    }
    const void *mapping = NULL;
    struct stat found;
    if (sys_stat(fd, &found) && found.st_size == VCUDA_PAGE_FILE_BYTES) {
        mapping = sys_map(VCUDA_PAGE_FILE_BYTES, PROT_READ, MAP_SHARED, fd);
    }
    sys_close(fd);
    return mapping;
}

static const struct vcuda_limits_slot *slot_of(const struct shared_page *page, uint32_t published) {
    const struct vcuda_limits_file *file = page->mapping;
    return &file->slots[published];
}

static uint32_t published_now(const struct shared_page *page) {
    const struct vcuda_page_header *header = page->mapping;
    return atomic_load((const _Atomic uint32_t *)&header->published);
}

static uint64_t generation_now(const struct shared_page *page, uint32_t published) {
    const struct vcuda_limits_slot *slot = slot_of(page, published);
    return atomic_load((const _Atomic uint64_t *)&slot->header.generation);
}

static bool header_fits(const struct shared_page *page, const char *magic) {
    struct vcuda_page_header header;
    memcpy(&header, page->mapping, sizeof header);
    return memcmp(header.magic, magic, sizeof header.magic) == 0 &&
           VCUDA_LAYOUT_IS_READ(header.version) && header.file_bytes == VCUDA_PAGE_FILE_BYTES &&
           header.slot_bytes == sizeof(struct vcuda_limits_slot);
}

static bool read_slot(struct shared_page *page, uint32_t published) {
    struct vcuda_limits_slot slot;
    memcpy(&slot, slot_of(page, published), sizeof slot);
    uint32_t crc = crc32_ieee(0, &slot.header.generation, sizeof slot.header.generation);
    /* A writer that came around meanwhile may have died before it published this. */
    if (crc32_ieee(crc, &slot.body, sizeof slot.body) != slot.header.crc ||
        published_now(page) != published ||
        generation_now(page, published) != slot.header.generation) {
        return false;
    }
    page->published = published;
    page->generation = slot.header.generation;
    memcpy(&page->body, &slot.body, sizeof slot.body);
    return true;
}

bool shared_page_refresh(struct shared_page *page, const char *path, const char *magic) {
    if (page->mapping == NULL) {
        page->mapping = map_file(path);
    }
    if (page->mapping == NULL || !sys_page_is_backed(page->mapping) || !header_fits(page, magic)) {
        return page->valid;
    }
    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        uint32_t published = published_now(page);
        if (published > 1) {
            break;
        }
        if (page->valid && page->published == published &&
            page->generation == generation_now(page, published)) {
            break;
        }
        if (read_slot(page, published)) {
            page->valid = true;
            break;
        }
    }
    return page->valid;
}
