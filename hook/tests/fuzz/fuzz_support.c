#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

void fuzz_file(int fd) {
    int made = memfd_create("fuzz", MFD_CLOEXEC);
    EXPECT(made >= 0 && dup2(made, fd) == fd);
    close(made);
}

void fuzz_resize(int fd, uint64_t bytes) { EXPECT(ftruncate(fd, (off_t)bytes) == 0); }

void *fuzz_map(int fd, size_t bytes) {
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT(mapping != MAP_FAILED);
    return mapping;
}

/* CRC-32 with the polynomial as IEEE 802.3 writes it, highest power first: every bit is turned
 * round on its way in, and so is the result. */
static uint32_t crc_add(uint32_t crc, const void *data, size_t length) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < length * 8; i++) {
        uint32_t bit = (bytes[i / 8] >> (i % 8)) & 1u;
        uint32_t carry = (crc >> 31) ^ bit;
        crc = (crc << 1) ^ (carry != 0 ? 0x04c11db7u : 0);
    }
    return crc;
}

static uint32_t slot_crc(uint64_t generation, const void *body) {
    uint32_t crc = crc_add(UINT32_MAX, &generation, sizeof generation);
    crc = crc_add(crc, body, sizeof(struct vcuda_limits_body));
    uint32_t turned = 0;
    for (unsigned i = 0; i < 32; i++) {
        turned |= ((crc >> i) & 1u) << (31 - i);
    }
    return ~turned;
}

bool fuzz_slot_fits(const struct vcuda_limits_slot *slot) {
    return slot->header.crc == slot_crc(slot->header.generation, &slot->body);
}

void fuzz_page_begin(struct vcuda_limits_file *file, const char *magic) {
    memset(file, 0, sizeof *file);
    file->header = (struct vcuda_page_header){.version = VCUDA_LAYOUT_VERSION,
                                              .file_bytes = sizeof *file,
                                              .slot_bytes = sizeof file->slots[0]};
    memcpy(file->header.magic, magic, sizeof file->header.magic);
}

void fuzz_publish(struct vcuda_limits_file *file, const void *body, unsigned steps) {
    uint32_t idle = 1 - (file->header.published & 1);
    struct vcuda_limits_slot *slot = &file->slots[idle];
    uint64_t generation = file->slots[1 - idle].header.generation + 1;
    size_t half = sizeof slot->body / 2;
    if (steps > 0) {
        memcpy(&slot->body, body, half);
    }
    if (steps > 1) {
        memcpy((char *)&slot->body + half, (const char *)body + half, sizeof slot->body - half);
    }
    if (steps > 2) {
        slot->header =
            (struct vcuda_slot_header){.generation = generation, .crc = slot_crc(generation, body)};
    }
    if (steps > 3) {
        file->header.published = idle;
    }
}
