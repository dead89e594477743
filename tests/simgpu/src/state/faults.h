/* Injected faults: a call's answer or wait, by the symbol that a program calls.
 *
 * A fault is written as SYMBOL WORD…: `result=CODE` the answer, `nth=N` the first call it meets
 * (1), `count=N` how many it meets from there (1; 0: all that come), `delay_us=N` a wait before,
 * `missing`: cuGetProcAddress does not know it. A last '*' of the symbol stands for any end. */
#ifndef SIMGPU_FAULTS_H
#define SIMGPU_FAULTS_H

#include "state.h"

/* false, with a text that names the fault. */
bool sim_fault_parse(const char *text, struct sim_fault *fault, char *error, size_t error_size);

bool sim_fault_meets(const struct sim_fault *fault, const char *symbol);

#endif
