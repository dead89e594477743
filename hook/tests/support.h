/* Shared by the hook's test programs: their files, the driver by dlopen, and CHECK. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "fake/fake.h"
#include "loader/drivers.h"
#include "vcuda_layout.h"

#define MIB (UINT64_C(1) << 20)
#define SHARE_BYTES (512 * MIB)
#define CONTEXT_BYTES (64 * MIB)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* The three files for card 0, and card 1 with twice the share, in the working directory. */
void files_make(void);
void limits_write(const struct vcuda_limits_body *body); /* a new file */
void limits_publish(const struct vcuda_limits_body *body);
void limits_republish(uint32_t slot);              /* what lies there */
void activity_publish(uint64_t unaccounted_bytes); /* of card 0 */
struct vcuda_limits_body limits_default(void);
void activity_publish_body(const struct vcuda_activity_body *body);
struct vcuda_ledger_file *ledger_map(void); /* for the life of the program */
/* Bytes charged on card 0, by the sum and by the slots. */
uint64_t ledger_sum_bytes(void);
uint64_t ledger_slots_bytes(void);

/* A library's function, by dlopen and dlsym as a program asks for it; it has to be there. */
void *library_function(const char *library, const char *name);
/* A function of libcuda.so.1 by dlopen and dlsym, typed by the name in symbols.def. */
void *cuda_function(const char *name);
#define CUDA(name) ((name##_fn *)cuda_function(#name))

void context_make(CUdevice device); /* the primary one, made current */
CUdeviceptr allocate(size_t bytes); /* succeeds */
CUresult try_allocate(size_t bytes);
void release(CUdeviceptr pointer);

/* Runs `body` in a child and returns its exit status, or 128 + the signal that ended it. */
int in_child(void (*body)(void));
pid_t start_child(void (*body)(void));
int wait_child(pid_t child);
/* A pipe between parent and child: one waits until the other has said so. */
void tell(int pipe_end[2]);
void await(int pipe_end[2]);

#endif
