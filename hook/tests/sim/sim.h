/*
 * A card, the agent and programs in virtual time. Each program is a coroutine that launches through
 * the real limiter (limiter, gpu_timer, bucket); clock.c, limiter_ledger.c and the driver are
 * replaced.
 *
 * The card gives its processes turns of 2 ms. Within one, the streams of a process run at the same
 * time. Events resolve half a microsecond and take the card as long; each driver call takes the
 * program time. Sources: CUDA C++ Programming Guide (event resolution, time-slicing between
 * processes without MPS); call times are those that GPU-Virt-Bench measured.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <ucontext.h>

#include "limiter/limiter.h"
#include "loader/drivers.h"
#include "shared/clock.h"

enum { SIM_TENANTS = 8, SIM_PROCESSES = 16, SIM_STREAMS = 4, SIM_QUEUE = 1024 };

#define SIM_TICK_NS (50 * NS_PER_MS)
/* In ticks: how often the agent looks at NVML; by how much NVML's windows of 1/6 s are behind by
 * then, at worst, and windows of 1 s, which some cards have. */
enum { SIM_LOOK = 20, SIM_LAG = 4, SIM_LAG_MAX = 20, SIM_TICKS = SIM_LOOK + SIM_LAG_MAX + 1 };
#define SIM_WINDOW_NS (NS_PER_S / 6)

enum sim_loop { SIM_FLOOD, SIM_SYNCHRONISE };

/* The launches of a program, one after the other. */
struct sim_work {
    const char *name;
    enum sim_loop loop;
    unsigned streams; /* it goes round */
    unsigned kinds;   /* of kernels, by turns of chance, each with the same part of time */
    uint64_t lengths_ns[6];
    bool one_function;       /* its length depends on its data */
    uint64_t host_ns;        /* between two launches */
    uint64_t from_ns, to_ns; /* when it wants the card */
};

struct sim_tenant {
    uint32_t percent, burst_percent;
    unsigned processes;
    unsigned threads; /* of each, by turns on a stream of its own and on one for all; 0: one */
    struct sim_work work;
    uint64_t busy_ns; /* its time on the card: the truth */
    uint64_t launches;
};

/* The limiter under test. */
enum sim_limiter { SIM_OURS, SIM_NONE, SIM_ORIGINAL, SIM_PLAIN };

struct sim_run {
    enum sim_limiter limiter;
    bool agent;    /* there is one */
    unsigned lag;  /* of NVML's counts when it looks: ticks, up to SIM_LAG_MAX */
    bool good;     /* it is known to count well: believed whatever ledgers say */
    bool drawn;    /* NVML gives a window to one process (sim_agent.c) */
    bool silent;   /* NVML counts nothing by process */
    uint64_t seed; /* of what programs draw */
    /* The processor is taken away for `stall_ns`, on the average after so much of it; 0: never */
    uint64_t stall_every_ns, stall_ns;
    uint64_t length_ns;
    unsigned tenants;
    struct sim_tenant tenant[SIM_TENANTS];
    /* Called at each `mark_ns`, with the busy times so far. */
    uint64_t mark_ns;
    void (*mark)(const struct sim_run *run, uint64_t now);
};

void sim_play(struct sim_run *run);

/* Marks of one run, of 20 s at most. */
#define SIM_MARK_NS (100 * NS_PER_MS)
enum { SIM_SPAN = 20 }; /* marks: two seconds */
/* Before the run. */
void sim_marks_begin(struct sim_run *run);
/* What a tenant had of the card between two marks, percent. */
double sim_marks_between(unsigned tenant, unsigned from, unsigned to);
/* The same of those two seconds, after the first two, that miss its share by most. */
double sim_marks_worst_span(const struct sim_run *run, unsigned tenant);
/* How long the last run's launches of a tenant waited. */
uint64_t sim_throttled_ns(unsigned tenant);

/* ---- between the parts of the simulation ---- */

struct sim_item {
    uint64_t queued_at;
    uint64_t left_ns;
    bool kernel;
    struct CUevent_st *event;
};

struct CUstream_st {
    struct sim_process *process;
    struct sim_item items[SIM_QUEUE];
    uint64_t first, last; /* counts; what is queued lies between */
};

struct CUevent_st {
    bool passed;
    uint64_t at_ns;
};

/* A process, or one more thread of one. */
struct sim_process {
    unsigned tenant;
    struct sim_process *owner; /* of the limiter, the streams and the slot */
    unsigned thread;
    struct limiter *limiter;
    struct limiter_context *limited;
    struct CUstream_st streams[SIM_STREAMS];
    struct CUstream_st *awaited;
    uint64_t now; /* its own clock, which may be ahead of the others' */
    bool ended;
    ucontext_t context;
    char *stack;
    uint64_t random;
    /* its slot of the ledger */
    uint64_t busy_ns, last_want_ns, throttled_ns;
};

struct sim_container {
    _Atomic uint64_t paid_until;
    uint32_t tenants_wanting;
    bool burst_allowed;
    uint64_t changed_at; /* whether it may burst */
    uint64_t known_ns, agent_busy_ns;
    uint64_t drawn_ns;
    uint64_t measured_ns;                    /* the ledger's word */
    double counts_ns, claims_ns, beliefs_ns; /* sums of the agent's looks (sim_agent.c) */
    /* at the agent's last ticks: the truth, or what was drawn of it, and the ledger's words */
    uint64_t busy_ns[SIM_TICKS], claimed_ns[SIM_TICKS], measured_at_ns[SIM_TICKS];
};

extern struct sim_world {
    struct sim_run *run;
    struct sim_process processes[SIM_PROCESSES];
    unsigned count;
    struct sim_container containers[SIM_TENANTS];
    struct sim_process *current;
    ucontext_t scheduler;
    uint64_t next_other; /* the earliest clock of the other processes */
    uint64_t card_now, turn_ends;
    unsigned turn;
    uint64_t window_ends, window_used_ns; /* NVML's */
} world;

struct driver *sim_driver(void);
void sim_spend(uint64_t ns);
/* Runs until no other process is behind, so that the card's work is known. */
void sim_meet(void);
void sim_launch(struct CUstream_st *stream, uint64_t ns);
void sim_await(struct CUstream_st *stream);
/* Lets the card work up to `until`, or to the moment that a process waits for. */
void sim_card_advance(uint64_t until);
void sim_agent(uint64_t now);
/* NVML's window ends then, and when it has, after a turn of this tenant's. */
uint64_t sim_window_left(void);
void sim_window_passed(unsigned tenant);
/* Other limiters. */
void sim_rivals_reset(void);
void sim_rivals_look(uint64_t now);
void sim_rivals_wait(const struct sim_process *process, uint64_t length_ns);
uint64_t sim_random(struct sim_process *process);

#endif
