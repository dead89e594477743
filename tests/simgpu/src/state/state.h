/* The shared state of one machine's simulated cards: the state that a driver keeps in the
 * kernel.
 *
 * One file, mapped by every process that uses the driver. Everything in it is guarded by `lock`
 * (robust: a process may be killed at any instruction), save `magic`, which is written last. The
 * state has no sum that the clients give, so it is sound after the death of a lock's owner: each
 * field is written by one store. */
#ifndef SIMGPU_STATE_H
#define SIMGPU_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAGIC 0x31555047534d4953ULL /* "SIMSGPU1" */
#define SIM_LAYOUT 6u
#define SIM_CARDS_MAX 16
#define SIM_CLIENTS_MAX 256
#define SIM_XIDS_MAX 64
#define SIM_FAULTS_MAX 16
#define SIM_OBJECTS_MAX 4096
#define SIM_SPANS 128     /* stretches of kernels between copies that a client queues on a card */
#define SIM_SEGMENTS 1024 /* 4 s of 2 ms slices on two cards: longer than programs look away */

/* Busy time is kept by windows (windows.h), as many as the resource manager's ring of samples has:
 * NV2080_CTRL_PERF_GPUMON_SAMPLE_COUNT_PERFMON_UTIL of driver 535; newer ones have 100. */
#define SIM_WINDOWS 72
#define SIM_ENDED_MAX 64 /* processes that have ended, on a card; the oldest ones are forgotten */

#define SIM_DEFAULT_STATE "/var/lib/simgpu/state"

/* How NVML counts what processes use: README.md, "Time". */
enum sim_counting {
    SIM_COUNT_EXACT,
    SIM_COUNT_LATE,
    SIM_COUNT_SECONDS,
    SIM_COUNT_SAMPLES,
    SIM_COUNT_SAMPLES_LAST,
};

/* A process that has ended: NVML's samples of it stay until newer ones take their place. */
struct sim_ended {
    int32_t pid;
    uint64_t pid_namespace;
    uint32_t busy_us[SIM_WINDOWS];
};

/* What moves data, apart from the multiprocessors; a fill is a kernel of the driver's. */
enum sim_engine { SIM_TO_DEVICE, SIM_TO_HOST, SIM_IN_DEVICE, SIM_PEER, SIM_ENGINES };

/* GPU time of a client in which it needs the multiprocessors. */
struct sim_span {
    uint64_t begin_ns, end_ns;
};

/* What becomes of a memory row with an uncorrectable error. */
enum sim_remap { SIM_REMAP_NONE, SIM_REMAP_PENDING, SIM_REMAP_FAILED };

struct sim_card {
    uint32_t minor;
    char uuid[48];
    char model[96];
    uint64_t memory_bytes;
    uint32_t sms;
    uint32_t capability_major, capability_minor;
    int32_t numa; /* -1: none */
    char bus[16]; /* 0000:07:00.0 */
    uint32_t lost;
    uint32_t ecc_errors; /* uncorrectable ones since the driver was loaded */
    uint32_t remap;      /* enum sim_remap */
    /* The time line: see timeline.h. */
    uint64_t clock_ns; /* CLOCK_MONOTONIC up to which the time line was worked out */
    int32_t running;   /* client that has the card, -1: none */
    uint64_t slice_left_ns;
    bool switching; /* between turns of two clients; switch_left_ns of it to come */
    uint64_t switch_left_ns;
    uint64_t loaded_ns; /* clock_ns at which the time line began */
    uint64_t busy_ns;   /* since then */
    uint64_t window;    /* number of the window that clock_ns lies in */
    uint32_t busy_us[SIM_WINDOWS];
    uint64_t apart[SIM_CLIENTS_MAX / 64]; /* clients with copies queued here */
    int32_t resident;                     /* the client that ran last, or an ended one: windows.c */
    uint64_t ended_count;
    struct sim_ended ended[SIM_ENDED_MAX];
};

/* One client's work on one card. */
struct sim_use {
    uint64_t used_bytes;
    uint32_t contexts;
    uint64_t progress_ns;            /* GPU time that it has had */
    uint64_t horizon_ns;             /* GPU time at which all of its queued work will be done */
    uint64_t copied_ns[SIM_ENGINES]; /* at which the last copy of each kind will be */
    /* From span_first on, in order and apart; those before are over. */
    uint32_t span_first, span_count;
    struct sim_span spans[SIM_SPANS];
    uint32_t busy_us[SIM_WINDOWS];
};

/* When a client got a card: maps its GPU time to wall time, for event time stamps. */
struct sim_segment {
    uint64_t wall_ns;
    uint64_t progress_ns;
    uint32_t card;
};

/* Alive while its process holds the lock on byte SIM_LOCK_BASE + slot (clients.c). By pid (in the
 * owner's own namespace) and token (the kernel's AT_RANDOM, new with each exec) an owner
 * recognises itself: F_GETLK never reports one's own locks. */
struct sim_client {
    uint32_t in_use;
    int32_t pid;
    uint64_t pid_namespace; /* that of pid */
    uint64_t token;
    char name[16];
    struct sim_use use[SIM_CARDS_MAX];
    uint64_t segment_count;
    struct sim_segment segments[SIM_SEGMENTS];
};

struct sim_timing {
    uint64_t slice_ns;      /* a turn, while another client wants the card too */
    uint64_t switch_ns;     /* in which the card does nothing, between turns of two clients */
    uint64_t event_ns;      /* GPU time that recording an event takes */
    uint64_t event_tick_ns; /* resolution of events' time stamps */
    uint64_t counting;      /* enum sim_counting */
    /* Megabytes a second (10^6): of a copy by its engine, of a fill, of each NVLink. */
    uint64_t copy_mb_s[SIM_ENGINES], fill_mb_s, nvlink_mb_s;
};

/* An injected fault: faults.h. */
struct sim_fault {
    char symbol[64]; /* a last '*' stands for any end */
    uint32_t nth, count;
    int32_t result;
    uint32_t delay_us;
    uint32_t missing;
};

struct sim_xid {
    uint32_t card;
    uint32_t xid;
};

/* Memory that more than one process may hold: see objects.h. */
struct sim_object {
    uint64_t id; /* 0: a free slot; written last */
    uint64_t bytes;
    uint64_t inode;                  /* of its file, by which a descriptor is recognised */
    uint32_t card;                   /* SIM_CARDS_MAX: host memory, takes nothing of a card */
    int32_t owner;                   /* client that NVML counts it for; -1: none */
    uint32_t holds;                  /* all that there ever were */
    uint32_t taken[SIM_CLIENTS_MAX]; /* which of them is a client's; 0: it has none */
};

struct sim_state {
    uint64_t magic;
    uint32_t layout;
    uint32_t size;
    pthread_mutex_t lock;
    char boot_id[40];
    char driver[32];
    int32_t cuda_version; /* 12020 */
    uint64_t epoch_ns;    /* CLOCK_REALTIME less CLOCK_MONOTONIC when the state was made */
    uint32_t card_count;
    struct sim_card cards[SIM_CARDS_MAX];
    char links[SIM_CARDS_MAX][SIM_CARDS_MAX][8];
    struct sim_timing timing;
    uint64_t fault_change; /* counts the changes of `faults` */
    uint32_t fault_count;
    struct sim_fault faults[SIM_FAULTS_MAX];
    uint32_t nvml_hangs;    /* no call of NVML returns */
    uint32_t nvml_mismatch; /* the loaded driver is of another version than the library */
    uint64_t xid_count;     /* all that were ever raised; the last SIM_XIDS_MAX are kept */
    struct sim_xid xids[SIM_XIDS_MAX];
    struct sim_client clients[SIM_CLIENTS_MAX];
    uint64_t object_count; /* all that were ever made: numbers are not used twice */
    uint32_t object_slots; /* all slots from here on are free, so that no look goes beyond */
    struct sim_object objects[SIM_OBJECTS_MAX];
};

/* Maps the state (once per process and library) or returns NULL with errno. The descriptor stays
 * open until exit: closing any descriptor of a file drops the process's POSIX locks on it. */
struct sim_state *sim_state_map(void);
int sim_state_fd(void);
const char *sim_state_path(void);
const char *sim_dev_dir(void);

void sim_lock(struct sim_state *state);
void sim_unlock(struct sim_state *state);

uint64_t sim_now_ns(void);

/* Whether the loaded driver is of another version than this library. */
bool sim_driver_mismatch(const struct sim_state *state);

/* True where this process may use the card, as the kernel judges: its device node can be opened,
 * or says ENXIO (node there and granted, no silicon behind it). errno says why not. */
bool sim_node_granted(const char *node);
bool sim_card_granted(const struct sim_card *card);

#endif
