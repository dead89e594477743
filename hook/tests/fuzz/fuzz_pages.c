/*
 * Limits and activity page of any content and length, with writers that die half-way. The hook
 * takes the content that was published and whole at that moment, or keeps its former one: never a
 * mix, and never none after the first. And it always takes a published whole page.
 */
#include <sys/mman.h>

#include "fuzz.h"
#include "memory/card_limits.h"
#include "shared/paths.h"

enum operation { POKE, PUBLISH, POINT, BEGIN, LOOK, OPERATIONS };

struct side {
    int fd;
    const char *path, *magic;
    struct vcuda_limits_file *file; /* NULL: too short to be written to */
    bool whole;                     /* the file had its full length when the hook met it */
    struct shared_page *page;
};

static struct process process;

/* The file's length is fixed from here on: pages are never resized. */
static void side_begin(struct side *side, struct input *input) {
    const uint64_t near[] = {0, VCUDA_PAGE_FILE_BYTES - 1, VCUDA_PAGE_FILE_BYTES + 1};
    uint64_t length = take_byte(input);
    length = length % 2 == 0  ? VCUDA_PAGE_FILE_BYTES
             : length / 2 < 3 ? near[length / 2]
                              : length * 64;
    fuzz_file(side->fd);
    fuzz_resize(side->fd, length);
    side->file = NULL;
    side->whole = length == VCUDA_PAGE_FILE_BYTES;
    if (length >= VCUDA_PAGE_FILE_BYTES) {
        side->file = fuzz_map(side->fd, sizeof *side->file);
        fuzz_page_begin(side->file, side->magic);
    }
    memset(side->page, 0, sizeof *side->page);
}

static void side_end(struct side *side) {
    if (side->file != NULL) {
        munmap(side->file, sizeof *side->file);
    }
    if (side->page->mapping != NULL) {
        munmap((void *)(uintptr_t)side->page->mapping, VCUDA_PAGE_FILE_BYTES);
    }
}

static const struct vcuda_limits_slot *published(const struct side *side) {
    const struct vcuda_page_header *header = &side->file->header;
    bool fits = side->whole && memcmp(header->magic, side->magic, sizeof header->magic) == 0 &&
                VCUDA_LAYOUT_IS_READ(header->version) && header->file_bytes == sizeof *side->file &&
                header->slot_bytes == sizeof side->file->slots[0] && header->published <= 1;
    const struct vcuda_limits_slot *slot = fits ? &side->file->slots[header->published] : NULL;
    return slot != NULL && fuzz_slot_fits(slot) ? slot : NULL;
}

static void look(struct side *side) {
    struct shared_page before = *side->page;
    bool valid = shared_page_refresh(side->page, side->path, side->magic);
    EXPECT(valid == side->page->valid);
    const struct vcuda_limits_slot *slot = side->file == NULL ? NULL : published(side);
    bool moved =
        slot != NULL && (!before.valid || before.published != side->file->header.published ||
                         before.generation != slot->header.generation);
    const void *expected = moved ? (const void *)&slot->body : (const void *)&before.body;
    EXPECT(valid == (before.valid || slot != NULL));
    EXPECT(memcmp(&side->page->body, expected, sizeof slot->body) == 0);
}

/* For any counts, only records of the body are found, and by their name alone. */
static void use(const struct process *of, const CUuuid *uuid) {
    const struct vcuda_limits_body *limits = &of->limits.body.limits;
    const struct vcuda_device_limit *limit = card_limits_of(of, uuid);
    if (limit != NULL) {
        size_t place = (size_t)(limit - limits->devices);
        EXPECT(place < VCUDA_MAX_CARDS && place < limits->device_count);
        EXPECT(memcmp(limit->uuid, uuid->bytes, sizeof limit->uuid) == 0);
    }
    const struct vcuda_activity_body *activity = &of->activity.body.activity;
    const struct vcuda_card_activity *card = card_limits_activity(of, uuid);
    if (card != NULL) {
        size_t place = (size_t)(card - activity->cards);
        EXPECT(of->activity.valid && place < VCUDA_MAX_CARDS && place < activity->card_count);
        EXPECT(memcmp(card->uuid, uuid->bytes, sizeof card->uuid) == 0);
    }
}

static void write_one(struct side *side, enum operation operation, struct input *input) {
    struct vcuda_limits_body body;
    size_t offset;
    switch (operation) {
    case POKE:
        offset = take_word(input) % sizeof *side->file;
        take(input, (char *)side->file + offset,
             take_byte(input) % 16 % (sizeof *side->file - offset));
        break;
    case PUBLISH: {
        unsigned steps = take_byte(input) % 5;
        size_t records = take_byte(input) % 4; /* the rest is zero */
        memset(&body, 0, sizeof body);
        take(input, &body, offsetof(struct vcuda_limits_body, devices[1]) + records * 64);
        fuzz_publish(side->file, &body, steps);
        break;
    }
    case POINT:
        side->file->header.published = (uint32_t)take_number(input);
        break;
    default:
        memcpy(side->file->header.magic, side->magic, sizeof side->file->header.magic);
        side->file->header.version = take_byte(input) % 4;
        side->file->header.file_bytes = sizeof *side->file;
        side->file->header.slot_bytes = sizeof side->file->slots[0];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {.data = data, .left = size};
    struct side sides[] = {
        {FUZZ_LIMITS_FD, HOOK_LIMITS_PATH, VCUDA_LIMITS_MAGIC, .page = &process.limits},
        {FUZZ_ACTIVITY_FD, HOOK_ACTIVITY_PATH, VCUDA_ACTIVITY_MAGIC, .page = &process.activity}};
    side_begin(&sides[0], &input);
    side_begin(&sides[1], &input);
    while (input.left > 0) {
        uint8_t choice = take_byte(&input);
        struct side *side = &sides[choice & 1];
        enum operation operation = (enum operation)(choice >> 1) % OPERATIONS;
        if (operation == LOOK) {
            CUuuid uuid;
            take(&input, &uuid, sizeof uuid);
            look(side);
            use(&process, &uuid);
        } else if (side->file != NULL) {
            write_one(side, operation, &input);
        }
    }
    look(&sides[0]);
    look(&sides[1]);
    side_end(&sides[0]);
    side_end(&sides[1]);
    return 0;
}
