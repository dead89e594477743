/* The card of the simulation, and the driver's functions that the limiter calls. */
#include <stdlib.h>

#include "sim.h"

#define TURN_NS (2 * NS_PER_MS)
#define EVENT_NS 500
#define RECORD_NS 1000
#define CALL_NS 300
#define LAUNCH_NS 2000
#define WAKE_NS 5000

static struct sim_item *head(struct CUstream_st *stream) {
    return stream->first == stream->last ? NULL : &stream->items[stream->first % SIM_QUEUE];
}

static bool has_work(struct sim_process *process, uint64_t now) {
    for (unsigned i = 0; i < SIM_STREAMS; i++) {
        struct sim_item *item = head(&process->streams[i]);
        if (item != NULL && item->queued_at <= now) {
            return true;
        }
    }
    return false;
}

static uint64_t next_arrival(uint64_t now) {
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < world.count; i++) {
        for (unsigned k = 0; k < SIM_STREAMS; k++) {
            struct sim_item *item = head(&world.processes[i].streams[k]);
            if (item != NULL && item->queued_at > now && item->queued_at < next) {
                next = item->queued_at;
            }
        }
    }
    return next;
}

/* The process at its turn goes on while it has work; then the next process with work. */
static struct sim_process *choose(void) {
    uint64_t now = world.card_now;
    if (now < world.turn_ends && has_work(&world.processes[world.turn], now)) {
        return &world.processes[world.turn];
    }
    for (unsigned i = 1; i <= world.count; i++) {
        unsigned next = (world.turn + i) % world.count;
        if (has_work(&world.processes[next], now)) {
            world.turn = next;
            world.turn_ends = now + TURN_NS;
            return &world.processes[next];
        }
    }
    return NULL;
}

static void finish(struct CUstream_st *stream, struct sim_item *item) {
    if (item->event != NULL) {
        item->event->passed = true;
        item->event->at_ns = world.card_now / EVENT_NS * EVENT_NS;
    }
    stream->first++;
}

/* Runs a process's streams until a change. */
static void run_for(struct sim_process *process, uint64_t ns) {
    bool kernels = false;
    uint64_t now = world.card_now;
    world.card_now += ns;
    for (unsigned i = 0; i < SIM_STREAMS; i++) {
        struct CUstream_st *stream = &process->streams[i];
        struct sim_item *item = head(stream);
        if (item == NULL || item->queued_at > now) {
            continue;
        }
        kernels = kernels || item->kernel;
        item->left_ns -= ns;
        if (item->left_ns == 0) {
            finish(stream, item);
        }
    }
    world.run->tenant[process->tenant].busy_ns += kernels ? ns : 0;
    world.window_used_ns += kernels ? ns : 0;
    sim_window_passed(process->tenant);
}

static uint64_t step_of(struct sim_process *process, uint64_t until, uint64_t arrival) {
    uint64_t end = until < world.turn_ends ? until : world.turn_ends;
    uint64_t window = world.card_now + sim_window_left();
    end = window < end ? window : end;
    end = arrival < end ? arrival : end;
    for (unsigned i = 0; i < SIM_STREAMS; i++) {
        struct sim_item *item = head(&process->streams[i]);
        if (item != NULL && item->queued_at <= world.card_now &&
            world.card_now + item->left_ns < end) {
            end = world.card_now + item->left_ns;
        }
    }
    return end - world.card_now;
}

static bool release_waiters(void) {
    bool released = false;
    for (unsigned i = 0; i < world.count; i++) {
        struct sim_process *process = &world.processes[i];
        if (process->awaited != NULL && head(process->awaited) == NULL) {
            process->awaited = NULL;
            process->now = world.card_now + WAKE_NS;
            released = true;
        }
    }
    return released;
}

void sim_card_advance(uint64_t until) {
    while (world.card_now < until) {
        struct sim_process *process = choose();
        uint64_t arrival = next_arrival(world.card_now);
        if (process == NULL) {
            world.card_now = arrival < until ? arrival : until;
            sim_window_passed(world.processes[world.turn].tenant);
            continue;
        }
        run_for(process, step_of(process, until, arrival));
        if (release_waiters()) {
            return;
        }
    }
}

static void push(struct CUstream_st *stream, struct sim_item item) {
    sim_meet();
    while (stream->last - stream->first == SIM_QUEUE) { /* the driver blocks when it is full */
        sim_spend(20 * NS_PER_US);
        sim_meet();
    }
    item.queued_at = world.current->now;
    stream->items[stream->last++ % SIM_QUEUE] = item;
}

void sim_launch(struct CUstream_st *stream, uint64_t ns) {
    sim_spend(LAUNCH_NS);
    push(stream, (struct sim_item){.left_ns = ns, .kernel = true});
}

void sim_await(struct CUstream_st *stream) {
    sim_meet();
    if (head(stream) != NULL) {
        world.current->awaited = stream;
        swapcontext(&world.current->context, &world.scheduler);
    }
}

static CUresult create(CUevent *event, unsigned int flags) {
    (void)flags;
    sim_spend(CALL_NS);
    *event = calloc(1, sizeof **event);
    return *event == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream) {
    sim_spend(RECORD_NS);
    event->passed = false;
    push(stream, (struct sim_item){.left_ns = EVENT_NS, .event = event});
    return CUDA_SUCCESS;
}

enum { NOT_READY = 600 };

static CUresult query(CUevent event) {
    sim_spend(CALL_NS);
    sim_meet();
    return event->passed ? CUDA_SUCCESS : NOT_READY;
}

static CUresult elapsed(float *milliseconds, CUevent begin, CUevent end) {
    sim_spend(CALL_NS);
    *milliseconds = (float)((double)(int64_t)(end->at_ns - begin->at_ns) / 1e6);
    return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream) {
    sim_spend(CALL_NS);
    sim_meet();
    return head(stream) == NULL ? CUDA_SUCCESS : NOT_READY;
}

struct driver *sim_driver(void) {
    static struct driver driver;
    atomic_store(&driver.real[SYMBOL_cuEventCreate], (void *)create);
    atomic_store(&driver.real[SYMBOL_cuEventRecord], (void *)record);
    atomic_store(&driver.real[SYMBOL_cuEventQuery], (void *)query);
    atomic_store(&driver.real[SYMBOL_cuEventElapsedTime], (void *)elapsed);
    atomic_store(&driver.real[SYMBOL_cuStreamQuery], (void *)stream_query);
    return &driver;
}
