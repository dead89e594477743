/*
 * A process that takes and gives back by one family after the other is stopped after each
 * instruction. All memory that it holds is charged then, within its share, and all of it is
 * returned when it is killed there: on a copy of the ledger after each instruction that changed it,
 * without a living process, and by SIGKILL at KILLS instructions of each family (or at every nth,
 * by KILL_EVERY=n in the environment), after which a child asks for the whole share.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/ledger.h"
#include "support.h"

#define FUNCTION(name) ((__typeof__(name) *)cuda_function(#name))
/* As CUDA, but asked for once: the loader's instructions are many, and not what is looked at. */
#define KNOWN(name)                                                                                \
    __extension__({                                                                                \
        static name##_fn *function;                                                                \
        function = function == NULL ? CUDA(name) : function;                                       \
        function;                                                                                  \
    })

enum { KILLS = 4 };

static CUdeviceptr taken(size_t bytes) {
    CUdeviceptr pointer;
    CHECK(KNOWN(cuMemAlloc_v2)(&pointer, bytes) == CUDA_SUCCESS);
    return pointer;
}

static void use_memory(void) {
    CHECK(KNOWN(cuMemFree_v2)(taken(4 * MIB)) == CUDA_SUCCESS);
    CHECK(KNOWN(cuMemFree_v2)(taken(1000)) == CUDA_SUCCESS); /* in a page that others share */
}

static void use_physical_memory(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = 1, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CHECK(KNOWN(cuMemCreate)(&handle, 8 * MIB, &properties, 0) == CUDA_SUCCESS);
    CHECK(KNOWN(cuMemMap)(UINT64_C(1) << 36, 8 * MIB, 0, handle, 0) == CUDA_SUCCESS);
    CHECK(KNOWN(cuMemRelease)(handle) == CUDA_SUCCESS);
    CHECK(KNOWN(cuMemUnmap)(UINT64_C(1) << 36, 8 * MIB) == CUDA_SUCCESS);
}

static CUmemoryPool pool;

static void use_pool(void) {
    CUdeviceptr pointer;
    CHECK(KNOWN(cuMemAllocAsync)(&pointer, 8 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(KNOWN(cuMemFreeAsync)(pointer, NULL) == CUDA_SUCCESS);
    CHECK(KNOWN(cuMemPoolTrimTo)(pool, 0) == CUDA_SUCCESS);
    CHECK(KNOWN(cuCtxSynchronize)() == CUDA_SUCCESS);
}

static void use_arrays(void) {
    CUarray array;
    CUmipmappedArray mipmap;
    CUDA_ARRAY3D_DESCRIPTOR description = {
        .Width = 4096, .Height = 1024, .Format = 1, .NumChannels = 1};
    CHECK(KNOWN(cuArray3DCreate_v2)(&array, &description) == CUDA_SUCCESS);
    CHECK(KNOWN(cuMipmappedArrayCreate)(&mipmap, &description, 3) == CUDA_SUCCESS);
    CHECK(KNOWN(cuMipmappedArrayDestroy)(mipmap) == CUDA_SUCCESS);
    CHECK(KNOWN(cuArrayDestroy)(array) == CUDA_SUCCESS);
}

static CUgraphExec graph;

static void make_graph(void) {
    CUgraph made;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = {
        .poolProps.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .bytesize = 8 * MIB};
    CHECK(FUNCTION(cuGraphCreate)(&made, 0) == CUDA_SUCCESS);
    CHECK(FUNCTION(cuGraphAddMemAllocNode)(&node, made, NULL, 0, &parameters) == CUDA_SUCCESS);
    CHECK(FUNCTION(cuGraphAddMemFreeNode)(&node, made, &node, 1, parameters.dptr) == CUDA_SUCCESS);
    CHECK(KNOWN(cuGraphInstantiateWithFlags)(&graph, made, 0) == CUDA_SUCCESS);
}

static void use_graph_memory(void) {
    CHECK(KNOWN(cuGraphUpload)(graph, NULL) == CUDA_SUCCESS);
    CHECK(KNOWN(cuGraphLaunch)(graph, NULL) == CUDA_SUCCESS);
    CHECK(KNOWN(cuCtxSynchronize)() == CUDA_SUCCESS);
    CHECK(KNOWN(cuDeviceGraphMemTrim)(0) == CUDA_SUCCESS);
}

static void use_contexts(void) {
    CUcontext other;
    CHECK(KNOWN(cuCtxCreate_v2)(&other, 0, 0) == CUDA_SUCCESS);
    taken(4 * MIB);
    CHECK(KNOWN(cuCtxDestroy_v2)(other) == CUDA_SUCCESS); /* with what was allocated in it */
    CHECK(KNOWN(cuDevicePrimaryCtxRetain)(&other, 0) == CUDA_SUCCESS);
    CHECK(KNOWN(cuDevicePrimaryCtxRelease_v2)(0) == CUDA_SUCCESS);
}

static void use_heap_and_stacks(void) {
    CHECK(KNOWN(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB) == CUDA_SUCCESS);
    CHECK(KNOWN(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB) == CUDA_SUCCESS);
    CHECK(KNOWN(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 9 << 10) == CUDA_SUCCESS);
    CHECK(KNOWN(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 1 << 10) == CUDA_SUCCESS);
}

static void (*const families[])(void) = {use_memory,         use_physical_memory, use_pool,
                                         use_arrays,         use_graph_memory,    use_contexts,
                                         use_heap_and_stacks};
enum { FAMILIES = sizeof families / sizeof *families };

static unsigned family;
static const unsigned long long *in_use; /* the driver's, at the same address in each child */

/* All names are known by a first turn. */
static void take_and_give(void) {
    context_make(0);
    CHECK(CUDA(cuDeviceGetDefaultMemPool)(&pool, 0) == CUDA_SUCCESS);
    make_graph();
    families[family]();
    CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    raise(SIGSTOP);
    families[family]();
    raise(SIGSTOP);
}

static void expect_all_free(void) {
    context_make(0);
    CHECK(try_allocate(SHARE_BYTES - CONTEXT_BYTES) == CUDA_SUCCESS);
    CHECK(ledger_sum_bytes() == CONTEXT_BYTES && ledger_slots_bytes() == CONTEXT_BYTES);
}

static bool step(pid_t child) {
    int status;
    CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    return WSTOPSIG(status) == SIGTRAP;
}

static unsigned long long held_by(pid_t child) {
    unsigned long long bytes;
    struct iovec to = {.iov_base = &bytes, .iov_len = sizeof bytes};
    struct iovec from = {.iov_base = (void *)(uintptr_t)in_use, .iov_len = sizeof bytes};
    CHECK(process_vm_readv(child, &to, 1, &from, 1, 0) == sizeof bytes);
    return bytes;
}

static struct vcuda_ledger_file *copy;

static void make_copy(void) {
    int fd = open("copy", O_RDWR | O_CREAT, 0666);
    CHECK(fd >= 0 && ftruncate(fd, sizeof *copy) == 0);
    copy = mmap(NULL, sizeof *copy, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(copy != MAP_FAILED);
    close(fd);
}

static void expect_recovery_of_copy(const struct vcuda_ledger_file *live) {
    memcpy(copy, live, sizeof *copy);
    struct ledger dead = {.file = NULL};
    CHECK(ledger_open(&dead, "copy", false));
    for (int card = 0; card < FAKE_CARDS; card++) {
        ledger_reclaim(&dead, "copy", card);
        CHECK(ledger_sum(&dead, card) == 0);
    }
    munmap(dead.file, sizeof *dead.file);
}

/* The words that processes share: those of the cards, and of the one slot that is in use. */
enum { COMPARED = offsetof(struct vcuda_ledger_file, slots[1]) };

/* The number of instructions. */
static unsigned long look_at_each(pid_t child) {
    static unsigned char last[COMPARED];
    const struct vcuda_ledger_file *live = ledger_map();
    unsigned long steps = 0;
    while (step(child)) {
        steps++;
        uint64_t charged = (live->cards[0].sum & ((UINT64_C(1) << VCUDA_UNITS_BITS) - 1));
        CHECK(charged * VCUDA_UNIT_BYTES <= SHARE_BYTES);
        /* The primary context is there all the time. */
        CHECK(charged * VCUDA_UNIT_BYTES >= CONTEXT_BYTES + held_by(child));
        if (memcmp(last, live, COMPARED) != 0) {
            memcpy(last, live, COMPARED);
            expect_recovery_of_copy(live);
        }
    }
    return steps;
}

static pid_t start_stopped(void) {
    int status;
    pid_t child = start_child(take_and_give);
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    return child;
}

static void end(pid_t child) {
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(wait_child(child) == 128 + SIGKILL);
    CHECK(in_child(expect_all_free) == 0);
}

static unsigned long distance_of_kills(unsigned long steps) {
    const char *every = getenv("KILL_EVERY");
    return every == NULL ? steps / KILLS : strtoul(every, NULL, 10);
}

int main(void) {
    files_make();
    make_copy();
    in_use = ((const unsigned long long *(*)(void))cuda_function("fake_in_use_word"))();
    for (family = 0; family < FAMILIES; family++) {
        pid_t child = start_stopped();
        unsigned long steps = look_at_each(child), distance = distance_of_kills(steps);
        CHECK(steps > 1000 && distance > 0);
        end(child);
        for (unsigned long at = distance / 2; at < steps; at += distance) {
            child = start_stopped();
            for (unsigned long i = 0; i < at && step(child); i++) {
            }
            end(child);
        }
    }
    return 0;
}
