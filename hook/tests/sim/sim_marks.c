/* Busy times of the tenants at every tenth of a second, and the spans between two of them. */
#include <math.h>

#include "sim.h"

enum { MARKS = 200 };

static uint64_t marked[MARKS][SIM_TENANTS];

static void mark(const struct sim_run *run, uint64_t now) {
    for (unsigned i = 0; i < run->tenants; i++) {
        marked[now / run->mark_ns % MARKS][i] = run->tenant[i].busy_ns;
    }
}

void sim_marks_begin(struct sim_run *run) {
    run->mark_ns = SIM_MARK_NS;
    run->mark = mark;
}

double sim_marks_between(unsigned tenant, unsigned from, unsigned to) {
    uint64_t busy_ns = marked[to][tenant] - marked[from][tenant];
    return 100.0 * (double)busy_ns / ((double)(to - from) * (double)SIM_MARK_NS);
}

double sim_marks_worst_span(const struct sim_run *run, unsigned tenant) {
    double target = run->tenant[tenant].percent, worst = target;
    unsigned last = (unsigned)(run->length_ns / SIM_MARK_NS) - 1;
    for (unsigned from = SIM_SPAN; from + SIM_SPAN <= last; from++) {
        double got = sim_marks_between(tenant, from, from + SIM_SPAN);
        worst = fabs(got - target) > fabs(worst - target) ? got : worst;
    }
    return worst;
}
