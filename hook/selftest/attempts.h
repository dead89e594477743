/* What the selftest tries on a card whose context is current. */
#ifndef SELFTEST_ATTEMPTS_H
#define SELFTEST_ATTEMPTS_H

#include "loader/drivers.h"
#include "report.h"

/* A function of the driver as any program gets it; NULL: this driver doesn't have it. */
#define DRIVER(library, name) ((name##_fn *)dlsym(library, #name))

/* Every family of memory asks for more than is free. Nothing stays taken. */
void try_memory(struct report *report, void *library, struct card *card, CUdevice device);
/* Launches for two seconds without a pause. */
void try_compute(struct report *report, void *library, struct card *card);

#endif
