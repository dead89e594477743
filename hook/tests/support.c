#include "support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/shared_page.h"

static void write_file(const char *path, const void *data, size_t size) {
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    CHECK(fd >= 0);
    CHECK(write(fd, data, size) == (ssize_t)size);
    close(fd);
}

static void *map_file(const char *path, size_t size) {
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    void *mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapping != MAP_FAILED);
    close(fd);
    return mapping;
}

struct vcuda_limits_body limits_default(void) {
    struct vcuda_limits_body body = {.on_error = VCUDA_ON_ERROR_CLOSED, .device_count = FAKE_CARDS};
    for (unsigned i = 0; i < FAKE_CARDS; i++) {
        body.devices[i].uuid[15] = (uint8_t)(FAKE_FIRST_UUID_BYTE + i);
        body.devices[i].memory_bytes = (i + 1) * SHARE_BYTES;
        body.devices[i].context_bytes = CONTEXT_BYTES;
        body.devices[i].compute_percent = 50;
        body.devices[i].burst_percent = 50;
    }
    return body;
}

static struct vcuda_slot_header slot_header(uint64_t generation, const void *body) {
    uint32_t crc = crc32_ieee(0, &generation, sizeof generation);
    crc = crc32_ieee(crc, body, sizeof(struct vcuda_limits_body));
    return (struct vcuda_slot_header){.generation = generation, .crc = crc};
}

static void page_write(const char *path, const char *magic, const void *body) {
    struct vcuda_limits_file file = {.header = {.version = VCUDA_LAYOUT_VERSION,
                                                .file_bytes = sizeof file,
                                                .slot_bytes = sizeof file.slots[0]}};
    memcpy(file.header.magic, magic, sizeof file.header.magic);
    memcpy(&file.slots[0].body, body, sizeof file.slots[0].body);
    file.slots[0].header = slot_header(1, body);
    write_file(path, &file, sizeof file);
}

static void page_publish(const char *path, const void *body) {
    struct vcuda_limits_file *file = map_file(path, sizeof *file);
    uint32_t idle = 1 - file->header.published;
    memcpy(&file->slots[idle].body, body, sizeof file->slots[idle].body);
    uint64_t generation = file->slots[1 - idle].header.generation;
    uint64_t left = file->slots[idle].header.generation; /* by a writer that died */
    generation = (generation > left ? generation : left) + 1;
    file->slots[idle].header = slot_header(generation, body);
    file->header.published = idle;
    munmap(file, sizeof *file);
}

void limits_write(const struct vcuda_limits_body *body) {
    page_write("limits", VCUDA_LIMITS_MAGIC, body);
}

void limits_publish(const struct vcuda_limits_body *body) { page_publish("limits", body); }

void limits_republish(uint32_t slot) {
    struct vcuda_limits_file *file = map_file("limits", sizeof *file);
    file->header.published = slot;
    munmap(file, sizeof *file);
}

void activity_publish_body(const struct vcuda_activity_body *body) {
    page_publish("activity", body);
}

void activity_publish(uint64_t unaccounted_bytes) {
    struct vcuda_activity_body body = {.sampled_ns = 1, .card_count = 1};
    body.cards[0].uuid[15] = FAKE_FIRST_UUID_BYTE;
    body.cards[0].unaccounted_bytes = unaccounted_bytes;
    activity_publish_body(&body);
}

void files_make(void) {
    struct vcuda_limits_body limits = limits_default();
    limits_write(&limits);
    struct vcuda_activity_body activity = {.sampled_ns = 0};
    page_write("activity", VCUDA_ACTIVITY_MAGIC, &activity);
    static struct vcuda_ledger_file ledger;
    ledger.header = (struct vcuda_ledger_header){.version = VCUDA_LAYOUT_VERSION,
                                                 .file_bytes = sizeof ledger,
                                                 .slot_count = VCUDA_LEDGER_SLOTS,
                                                 .slot_bytes = sizeof ledger.slots[0]};
    memcpy(ledger.header.magic, VCUDA_LEDGER_MAGIC, sizeof ledger.header.magic);
    for (unsigned i = 0; i < FAKE_CARDS; i++) {
        ledger.cards[i].uuid[15] = (uint8_t)(FAKE_FIRST_UUID_BYTE + i);
    }
    write_file("ledger", &ledger, sizeof ledger);
}

static uint64_t bytes_of(uint64_t word) {
    return (word & ((UINT64_C(1) << VCUDA_UNITS_BITS) - 1)) * VCUDA_UNIT_BYTES;
}

struct vcuda_ledger_file *ledger_map(void) {
    static struct vcuda_ledger_file *file;
    file = file == NULL ? map_file("ledger", sizeof *file) : file;
    return file;
}

uint64_t ledger_sum_bytes(void) {
    struct vcuda_ledger_file *file = map_file("ledger", sizeof *file);
    uint64_t sum = bytes_of(file->cards[0].sum);
    munmap(file, sizeof *file);
    return sum;
}

uint64_t ledger_slots_bytes(void) {
    struct vcuda_ledger_file *file = map_file("ledger", sizeof *file);
    uint64_t sum = 0;
    for (unsigned slot = 0; slot < VCUDA_LEDGER_SLOTS; slot++) {
        sum += bytes_of(file->slots[slot].cards[0].used);
    }
    munmap(file, sizeof *file);
    return sum;
}

void *library_function(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW);
    CHECK(handle != NULL);
    void *function = dlsym(handle, name);
    if (function == NULL) {
        fprintf(stderr, "no %s\n", name);
    }
    CHECK(function != NULL);
    return function;
}

void *cuda_function(const char *name) { return library_function("libcuda.so.1", name); }

void context_make(CUdevice device) {
    CUcontext context;
    CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS);
    CHECK(((CUresult(*)(CUcontext))cuda_function("cuCtxSetCurrent"))(context) == CUDA_SUCCESS);
}

CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr pointer = 0;
    CHECK(CUDA(cuMemAlloc_v2)(&pointer, bytes) == CUDA_SUCCESS);
    return pointer;
}

CUresult try_allocate(size_t bytes) {
    CUdeviceptr pointer = 0;
    CUresult result = CUDA(cuMemAlloc_v2)(&pointer, bytes);
    CHECK(result == CUDA_SUCCESS || pointer == 0);
    if (result == CUDA_SUCCESS) {
        release(pointer);
    }
    return result;
}

void release(CUdeviceptr pointer) { CHECK(CUDA(cuMemFree_v2)(pointer) == CUDA_SUCCESS); }

pid_t start_child(void (*body)(void)) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        body();
        _Exit(0);
    }
    return child;
}

int wait_child(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int in_child(void (*body)(void)) { return wait_child(start_child(body)); }

void tell(int pipe_end[2]) { CHECK(write(pipe_end[1], "x", 1) == 1); }

void await(int pipe_end[2]) {
    char byte;
    CHECK(read(pipe_end[0], &byte, 1) == 1);
}
