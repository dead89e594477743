/* Programs as coroutines, their clocks and the container's files. */
#include <stdlib.h>
#include <string.h>

#include "limiter/bucket.h"
#include "limiter/limiter_ledger.h"
#include "limiter/limiter_settle.h"
#include "sim.h"

#define STACK_BYTES (256 * 1024)
#define OVERSLEEP_NS (60 * NS_PER_US) /* a timer's slack and the way back onto a processor */
#define AHEAD_NS (20 * NS_PER_US)

struct sim_world world;

/* Time begins late enough for the bucket's credit to be a time. */
#define BEGIN_NS (100 * NS_PER_S)

static void yield(void) { swapcontext(&world.current->context, &world.scheduler); }

uint64_t clock_now(void) { return world.current->now; }

uint64_t clock_now_coarse(void) { return world.current->now; }

void clock_sleep_until(uint64_t ns) {
    if (ns > world.current->now) {
        world.current->now = ns;
    }
    world.current->now += OVERSLEEP_NS;
    yield();
}

uint64_t sim_random(struct sim_process *process) {
    process->random = process->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return process->random >> 33;
}

/* The processor is taken away now and then, at any point of the program. */
static void stall(struct sim_process *process, uint64_t ns) {
    uint64_t every = world.run->stall_every_ns;
    if (every != 0 && sim_random(process) % every < ns) {
        process->now += world.run->stall_ns;
    }
}

void sim_spend(uint64_t ns) {
    world.current->now += ns;
    stall(world.current, ns);
    if (world.current->now > world.next_other + AHEAD_NS) {
        yield();
    }
}

void sim_meet(void) {
    if (world.current->now > world.next_other) {
        yield();
    } else {
        sim_card_advance(world.current->now);
    }
}

/* A kernel of any kind, such that each kind has the same part of the time. */
static unsigned choose(struct sim_process *process, const struct sim_work *work) {
    double sum = 0;
    for (unsigned i = 0; i < work->kinds; i++) {
        sum += 1.0 / (double)work->lengths_ns[i];
    }
    double drawn = (double)sim_random(process) / (double)(UINT64_C(1) << 31) * sum;
    unsigned kind = 0;
    while (kind + 1 < work->kinds && drawn >= 1.0 / (double)work->lengths_ns[kind]) {
        drawn -= 1.0 / (double)work->lengths_ns[kind++];
    }
    return kind;
}

static void launch(struct sim_process *process, const struct sim_work *work, unsigned number) {
    static const char functions[6][64];
    bool threads = world.run->tenant[process->tenant].threads != 0;
    unsigned kind = threads ? number % work->kinds : choose(process, work);
    unsigned place = !threads          ? number % work->streams
                     : number % 2 == 0 ? process->thread
                                       : SIM_STREAMS - 1;
    struct CUstream_st *stream = &process->owner->streams[place];
    struct limiter_launch launch = {.counted = false};
    const struct gpu_timer_work what = {
        .key = {.function = functions[work->one_function ? 0 : kind]},
        .threads = 1,
        .stream = stream};
    sim_spend(work->host_ns);
    if (world.run->limiter == SIM_OURS) {
        sim_spend(100);
        limiter_begin(process->limiter, process->limited, &what, &launch);
    }
    if (world.run->limiter == SIM_ORIGINAL || world.run->limiter == SIM_PLAIN) {
        sim_rivals_wait(process, work->lengths_ns[kind]);
    }
    sim_launch(stream, work->lengths_ns[kind]);
    if (launch.counted) {
        limiter_end(process->limiter, process->limited, &what, &launch, CUDA_SUCCESS);
    }
    world.run->tenant[process->tenant].launches++;
    if (work->loop == SIM_SYNCHRONISE) {
        sim_await(stream);
        if (world.run->limiter == SIM_OURS) {
            limiter_poll(process->limiter, process->limited,
                         process->now); /* as hooks_pool_objects.c */
        }
    }
}

static void program(void) {
    struct sim_process *process = world.current;
    const struct sim_work *work = &world.run->tenant[process->tenant].work;
    process->now = BEGIN_NS + work->from_ns;
    yield();
    for (unsigned number = 0; process->now < BEGIN_NS + work->to_ns; number++) {
        launch(process, work, number);
    }
    process->ended = true;
    yield();
}

CUresult limiter_ledger_read(void *files, const CUuuid *uuid, uint64_t now,
                             struct compute_limits *limits) {
    struct sim_process *own = files;
    const struct sim_tenant *tenant = &world.run->tenant[own->tenant];
    const struct sim_container *container = &world.containers[own->tenant];
    (void)uuid;
    *limits = (struct compute_limits){
        .counted = true,
        .percent = tenant->percent,
        .burst_percent = container->burst_allowed ? tenant->burst_percent : tenant->percent,
        .tenants_wanting = container->tenants_wanting,
        .agent_busy_ns = container->agent_busy_ns};
    for (unsigned i = 0; i < world.count; i++) {
        const struct sim_process *other = &world.processes[i];
        if (other->tenant == own->tenant) {
            limits->ledger_busy_ns += other->busy_ns;
            limits->siblings += other != own && other->last_want_ns + 300 * NS_PER_MS > now;
        }
    }
    return CUDA_SUCCESS;
}

uint64_t limiter_ledger_enter(void *files, const CUuuid *uuid, uint64_t now,
                              const struct limiter_entry *entry) {
    struct sim_process *own = files;
    (void)uuid;
    own->busy_ns += (uint64_t)entry->busy_ns;
    world.containers[own->tenant].measured_ns += entry->measured_ns;
    own->throttled_ns += entry->throttled_ns;
    own->last_want_ns = now;
    return bucket_charge(&world.containers[own->tenant].paid_until, now, entry->wall_ns,
                         entry->credit_ns);
}

uint64_t sim_throttled_ns(unsigned tenant) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < world.count; i++) {
        sum += world.processes[i].tenant == tenant ? world.processes[i].throttled_ns : 0;
    }
    return sum;
}

static void start(unsigned tenant, struct sim_process *owner, unsigned thread) {
    static const CUuuid uuid = {.bytes = {1}};
    struct sim_process *process = &world.processes[world.count];
    *process = (struct sim_process){.tenant = tenant,
                                    .owner = owner == NULL ? process : owner,
                                    .thread = thread,
                                    .random = world.count * 7919 + 1 + world.run->seed * 1000003};
    world.count++;
    process->limiter = owner == NULL ? calloc(1, sizeof *process->limiter) : owner->limiter;
    process->limiter->files = process->owner;
    process->stack = malloc(STACK_BYTES);
    const struct current_context current = {
        .driver = sim_driver(), .handle = (CUcontext)(void *)process->owner, .uuid = uuid};
    process->limited = limiter_context_of(process->limiter, &current);
    getcontext(&process->context);
    process->context.uc_stack.ss_sp = process->stack;
    process->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&process->context, program, 0);
    world.current = process;
    swapcontext(&world.scheduler, &process->context);
}

static struct sim_process *earliest(uint64_t *next_other, uint64_t agent_at) {
    struct sim_process *first = NULL;
    *next_other = agent_at;
    for (unsigned i = 0; i < world.count; i++) {
        struct sim_process *process = &world.processes[i];
        if (process->ended || process->awaited != NULL) {
            continue;
        }
        if (first == NULL || process->now < first->now) {
            *next_other = first != NULL && first->now < *next_other ? first->now : *next_other;
            first = process;
        } else if (process->now < *next_other) {
            *next_other = process->now;
        }
    }
    return first;
}

static bool somebody_waits(void) {
    for (unsigned i = 0; i < world.count; i++) {
        if (world.processes[i].awaited != NULL) {
            return true;
        }
    }
    return false;
}

static void schedule(uint64_t end) {
    uint64_t agent_at = BEGIN_NS;
    while (agent_at < end) {
        struct sim_process *first = earliest(&world.next_other, agent_at);
        uint64_t until = first != NULL && first->now < agent_at ? first->now : agent_at;
        sim_card_advance(until);
        if (world.card_now < until) {
            continue; /* a process's wait is over */
        }
        if (first == NULL || first->now >= agent_at) {
            if (world.run->mark != NULL && (agent_at - BEGIN_NS) % world.run->mark_ns == 0) {
                world.run->mark(world.run, agent_at - BEGIN_NS);
            }
            sim_agent(agent_at);
            if (world.run->limiter == SIM_ORIGINAL && agent_at % (100 * NS_PER_MS) == 0) {
                sim_rivals_look(agent_at);
            }
            agent_at += SIM_TICK_NS;
            continue;
        }
        /* A waiting process may go on any time the card lets it: no other runs ahead of that. */
        world.next_other = somebody_waits() ? first->now : world.next_other;
        world.current = first;
        swapcontext(&world.scheduler, &first->context);
    }
    sim_card_advance(end);
}

void sim_play(struct sim_run *run) {
    memset(&world, 0, sizeof world);
    world.run = run;
    world.card_now = BEGIN_NS;
    world.window_ends = BEGIN_NS + SIM_WINDOW_NS;
    sim_rivals_reset();
    for (unsigned i = 0; i < run->tenants; i++) {
        run->tenant[i].busy_ns = 0;
        run->tenant[i].launches = 0;
        for (unsigned k = 0; k < run->tenant[i].processes; k++) {
            struct sim_process *owner = &world.processes[world.count];
            start(i, NULL, 0);
            for (unsigned t = 1; t < run->tenant[i].threads; t++) {
                start(i, owner, t);
            }
        }
    }
    schedule(BEGIN_NS + run->length_ns);
    for (unsigned i = 0; i < world.count; i++) {
        if (world.processes[i].owner == &world.processes[i]) {
            free(world.processes[i].limiter);
        }
        free(world.processes[i].stack);
    }
}
