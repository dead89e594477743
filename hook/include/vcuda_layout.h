/*
 * The three files that the node agent and the hook share, byte for byte.
 *
 * limits    agent -> hook   what the container may use; mounted read-only
 * activity  agent -> hook   what the agent sees on the cards; mounted read-only
 * ledger    hook <-> hook   the container's own accounting; writable by the tenant
 *
 * All are files of fixed size, little-endian, mapped by the hook, never replaced and never resized:
 * a file that is mounted into a container doesn't follow a rename, and a shrunken one raises
 * SIGBUS. gpustack/wire/mapped states the same numbers, and tests/wire/mapped/test_header.py
 * compiles this header to compare every size and offset.
 *
 * A change of meaning, size or offset is a new VCUDA_LAYOUT_VERSION. The three files of a container
 * are of one version. A hook reads all from VCUDA_LAYOUT_OLDEST to VCUDA_LAYOUT_VERSION, and the
 * file `layouts` of its build names them (a build without it reads 1). The agent writes the newest
 * that both know, and keeps a container's files as they are while anything of the container runs.
 *
 * Layout 2 gives a meaning to bytes that layout 1 reserves and writes as 0; sizes and offsets are
 * the same. Its fields are marked so, with what reads them; where nothing does so far, that is
 * said. The hook writes none of them into a ledger of layout 1.
 */
#ifndef VCUDA_LAYOUT_H
#define VCUDA_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define VCUDA_LAYOUT_VERSION 2u
#define VCUDA_LAYOUT_OLDEST 1u
#define VCUDA_LAYOUT_IS_READ(version)                                                              \
    ((version) >= VCUDA_LAYOUT_OLDEST && (version) <= VCUDA_LAYOUT_VERSION)

#define VCUDA_LIMITS_MAGIC "VCUDALIM"
#define VCUDA_ACTIVITY_MAGIC "VCUDAACT"
#define VCUDA_LEDGER_MAGIC "VCUDALED"

/* Cards of one container: the largest NVIDIA hosts have 16. */
#define VCUDA_MAX_CARDS 16u
/* Processes of one container that use a card at the same time. */
#define VCUDA_LEDGER_SLOTS 256u
/* The 16 bytes of cuDeviceGetUuid; NVML and Kubernetes write them as "GPU-" and hexadecimal. */
#define VCUDA_UUID_BYTES 16u

/* limits and activity fill one page of 4 KiB each. */
#define VCUDA_PAGE_FILE_BYTES 4096u

/* ---- limits and activity: two slots, one of them published --------------------------------- */

/*
 * The writer fills the slot that isn't published, then publishes its number with one store of one
 * byte. A writer that dies at any point leaves the last good slot in force. A reader takes the
 * published slot when its CRC fits, and looks again when `published` or `generation` has moved.
 */
struct vcuda_page_header {
    char magic[8];
    uint32_t version;
    uint32_t file_bytes;
    uint32_t slot_bytes;
    uint32_t published; /* 0 or 1 */
    uint8_t reserved[40];
};

/* `crc` is CRC-32 (IEEE 802.3, as zlib's) over the 8 bytes of `generation`, then the body. */
struct vcuda_slot_header {
    uint64_t generation; /* counts publications from 1 */
    uint32_t crc;
    uint32_t reserved;
};

enum vcuda_on_error {
    VCUDA_ON_ERROR_CLOSED = 0, /* gated calls fail when gating itself can't work */
    VCUDA_ON_ERROR_OPEN = 1,   /* they go to the driver, unaccounted */
};

struct vcuda_device_limit {
    uint8_t uuid[VCUDA_UUID_BYTES];
    uint64_t memory_bytes;
    uint64_t context_bytes;   /* what one CUDA context occupies on this card and driver */
    uint32_t compute_percent; /* guaranteed GPU time, 1..100 */
    uint32_t burst_percent;   /* ceiling while neighbours are idle, compute_percent..100 */
    uint8_t reserved[24];
};

struct vcuda_limits_body {
    uint32_t on_error; /* enum vcuda_on_error */
    uint32_t device_count;
    uint8_t reserved[40];
    struct vcuda_device_limit devices[VCUDA_MAX_CARDS];
};

struct vcuda_limits_slot {
    struct vcuda_slot_header header;
    struct vcuda_limits_body body;
};

struct vcuda_limits_file {
    struct vcuda_page_header header;
    struct vcuda_limits_slot slots[2];
    uint8_t reserved[1856];
};

struct vcuda_card_activity {
    uint8_t uuid[VCUDA_UUID_BYTES];
    uint32_t tenants_wanting;   /* containers on the card that wanted compute at the last sample */
    uint32_t burst_allowed;     /* 0 or 1 */
    uint64_t unaccounted_bytes; /* held by the container as NVML counts, and in no ledger */
    uint64_t busy_ns;           /* GPU time of the container as the agent counts, since its start */
    /*
     * Layout 2. The agent's own account of the container's GPU time, beside the ledger's: at the
     * container's ceiling, the time that the agent has counted is paid for up to paid_until_ns
     * (CLOCK_MONOTONIC), and debt_ns of it isn't paid for yet. 0 means "no debt known". Launches
     * wait for the later of this and the ledger's paid_until_ns, never for their sum; debt_ns is
     * the agent's own, for its next start.
     */
    uint64_t paid_until_ns;
    uint64_t debt_ns;
    uint8_t reserved[8];
};

struct vcuda_activity_body {
    uint64_t sampled_ns; /* CLOCK_MONOTONIC; older than 1 s allows no burst */
    uint32_t card_count;
    uint32_t reserved_word;
    uint8_t reserved[32];
    struct vcuda_card_activity cards[VCUDA_MAX_CARDS];
};

struct vcuda_activity_slot {
    struct vcuda_slot_header header;
    struct vcuda_activity_body body;
};

struct vcuda_activity_file {
    struct vcuda_page_header header;
    struct vcuda_activity_slot slots[2];
    uint8_t reserved[1856];
};

/* ---- ledger: what the container's processes hold ------------------------------------------- */

/*
 * A process owns a slot while it holds a write lock on the slot's first byte: an OFD lock, or,
 * where the filesystem drops that with the descriptor (overlayfs), one of the process. The kernel
 * drops either with the process, however it ends; F_OFD_GETLK shows both. No PID is trusted. What a
 * slot without a lock holds is void, and a process that needs room or the slot returns it to the
 * sums, under a read lock, as several may at the same time: it keeps the slot from being taken, and
 * stays visible. The byte after the first is the owner's, to try what the filesystem does.
 *
 * Memory is charged by compare-and-swap on one word a card, `sum`, which also names the slot and
 * the number of the operation that set it last:
 *
 *   sum   units : 36 | slot : 8 | sequence : 20      of the card, over all slots
 *   used  units : 36 | sequence : 28                 of one slot on that card
 *
 * An operation writes `delta` into its slot, swaps `sum`, and then moves `used` to the next
 * sequence number. A process that finds a `sum` whose operation hasn't reached `used` yet completes
 * it first. So the sum is that of the slots whatever instruction a process is killed at, and no
 * lock is left behind. The sequence in `sum` is the low 20 bits of the one in `used`. A charge must
 * fit the slots' own units, too: they are more than the sum only where a tenant has written.
 *
 * One unit is 256 bytes: the driver aligns what it hands out to at least that (CUDA C++ Programming
 * Guide, "Device Memory Accesses"), so it never takes less.
 */
#define VCUDA_UNIT_BYTES 256u
#define VCUDA_UNITS_BITS 36u
#define VCUDA_SLOT_BITS 8u
#define VCUDA_SUM_SEQUENCE_BITS 20u
#define VCUDA_USED_SEQUENCE_BITS 28u

struct vcuda_ledger_header {
    char magic[8];
    uint32_t version;
    uint32_t file_bytes;
    uint32_t slot_count;
    uint32_t slot_bytes;
    uint8_t reserved[40];
};

struct vcuda_ledger_card {
    uint8_t uuid[VCUDA_UUID_BYTES]; /* all zero: no card */
    uint64_t sum;
    uint64_t paid_until_ns; /* CLOCK_MONOTONIC up to which the container's GPU time is paid for */
    /* Layout 2, 0 by older hooks: GPU time of all its processes so far, as they have measured it,
     * without what the agent's count adds or takes, and without launches that aren't limited. The
     * agent compares its counts with this. */
    uint64_t measured_ns;
    uint8_t reserved[24];
};

/* What one process holds and did on one card: one cache line. */
struct vcuda_ledger_entry {
    uint64_t used;
    int64_t delta; /* units; of the operation under way */
    uint64_t contexts;
    uint64_t busy_ns;
    uint64_t last_want_ns; /* CLOCK_MONOTONIC */
    uint64_t denied;       /* requests refused */
    uint64_t throttled_ns;
    /*
     * Layout 2. The GPU time that launches under way may take beyond what is charged for them: 1 s
     * for each of a length that isn't known. Its owner writes it before the launch, and again when
     * that is measured. The process that takes a dead one's slot swaps it to 0 and then charges
     * it, at most the time since the last launch.
     */
    uint64_t open_ns;
};

struct vcuda_ledger_slot {
    uint32_t lock_word; /* never written: its first byte carries the owner's lock */
    uint32_t pid;       /* in the container's PID namespace; for display, decides nothing */
    /*
     * Layout 2. The generations of the two pages that are in force in the process: written when it
     * has applied another one, and 0 before the first. The agent reports a process that launches by
     * an old activity page.
     */
    uint64_t limits_generation;
    uint64_t activity_generation;
    uint8_t reserved[40];
    struct vcuda_ledger_entry cards[VCUDA_MAX_CARDS];
};

struct vcuda_ledger_file {
    struct vcuda_ledger_header header;
    struct vcuda_ledger_card cards[VCUDA_MAX_CARDS];
    struct vcuda_ledger_slot slots[VCUDA_LEDGER_SLOTS];
    uint8_t reserved[3008];
};

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the mapped files are little-endian, and so are all machines that the driver runs on"
#endif
_Static_assert(sizeof(struct vcuda_page_header) == 64, "page header");
_Static_assert(sizeof(struct vcuda_slot_header) == 16, "slot header");
_Static_assert(sizeof(struct vcuda_device_limit) == 64, "device limit");
_Static_assert(sizeof(struct vcuda_limits_body) == 1072, "limits body");
_Static_assert(sizeof(struct vcuda_limits_file) == VCUDA_PAGE_FILE_BYTES, "limits file");
_Static_assert(sizeof(struct vcuda_card_activity) == 64, "card activity");
_Static_assert(sizeof(struct vcuda_activity_body) == 1072, "activity body");
_Static_assert(sizeof(struct vcuda_activity_file) == VCUDA_PAGE_FILE_BYTES, "activity file");
_Static_assert(sizeof(struct vcuda_ledger_header) == 64, "ledger header");
_Static_assert(sizeof(struct vcuda_ledger_card) == 64, "ledger card");
_Static_assert(sizeof(struct vcuda_ledger_entry) == 64, "ledger entry");
_Static_assert(sizeof(struct vcuda_ledger_slot) == 1088, "ledger slot");
_Static_assert(sizeof(struct vcuda_ledger_file) == 69 * 4096, "ledger file");
_Static_assert(offsetof(struct vcuda_page_header, published) == 20, "published");
_Static_assert(offsetof(struct vcuda_limits_file, slots) == 64, "limits slots");
_Static_assert(offsetof(struct vcuda_ledger_file, cards) == 64, "ledger cards");
_Static_assert(offsetof(struct vcuda_ledger_file, slots) == 1088, "ledger slots");
_Static_assert(offsetof(struct vcuda_ledger_card, sum) % 8 == 0, "sum is one atomic word");
_Static_assert(VCUDA_LAYOUT_OLDEST == 1 && VCUDA_LAYOUT_VERSION == 2,
               "layout 1 has zeros where layout 2 has fields");
_Static_assert(offsetof(struct vcuda_card_activity, paid_until_ns) == 40, "the agent's paid_until");
_Static_assert(offsetof(struct vcuda_card_activity, debt_ns) == 48, "the agent's debt");
_Static_assert(offsetof(struct vcuda_ledger_entry, open_ns) == 56, "open time");
_Static_assert(offsetof(struct vcuda_ledger_slot, limits_generation) == 8, "applied limits");
_Static_assert(offsetof(struct vcuda_ledger_slot, activity_generation) == 16, "applied activity");
_Static_assert(offsetof(struct vcuda_ledger_slot, cards) == 64, "a slot's cards");
_Static_assert(VCUDA_UNITS_BITS + VCUDA_SLOT_BITS + VCUDA_SUM_SEQUENCE_BITS == 64, "sum");
_Static_assert(VCUDA_UNITS_BITS + VCUDA_USED_SEQUENCE_BITS == 64, "used");
_Static_assert(1u << VCUDA_SLOT_BITS == VCUDA_LEDGER_SLOTS, "a slot's number fits its field");
#endif

#endif
