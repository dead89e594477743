/*
 * The assembly of dlsym and dlvsym by itself, with another C half: what that half is given, with
 * what libc's functions are entered, and that nothing else of the caller's has changed. Run on both
 * architectures.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* As resolve.c has it. */
struct dlsym_answer {
    void *value, *tail;
};
struct dlsym_answer hook_dlsym_answer(void *handle, const char *name, const char *version,
                                      void *caller);

/* The gates; the build gives them these names (GATED_LOADER). */
void *gated_dlsym(void *handle, const char *name);
void *gated_dlvsym(void *handle, const char *name, const char *version);

struct call {
    void *handle;
    const char *name, *version;
    void *caller;
    uintptr_t frame;
};

static struct call asked, entered;
static struct dlsym_answer answer;

/* All registers that a function may change. */
static void change_registers(void) {
#ifdef __aarch64__
    __asm__ volatile("mov x0, #-1\n mov x1, #-1\n mov x2, #-1\n mov x3, #-1\n mov x4, #-1\n"
                     "mov x5, #-1\n mov x6, #-1\n mov x7, #-1\n mov x8, #-1\n mov x9, #-1\n"
                     "mov x10, #-1\n mov x11, #-1\n mov x12, #-1\n mov x13, #-1\n mov x14, #-1\n"
                     "mov x15, #-1\n mov x16, #-1\n mov x17, #-1\n" ::
                         : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
                           "x12", "x13", "x14", "x15", "x16", "x17", "cc");
#else
    __asm__ volatile("mov $-1, %%rax\n mov $-1, %%rcx\n mov $-1, %%rdx\n mov $-1, %%rsi\n"
                     "mov $-1, %%rdi\n mov $-1, %%r8\n mov $-1, %%r9\n mov $-1, %%r10\n"
                     "mov $-1, %%r11\n" ::
                         : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
#endif
}

struct dlsym_answer hook_dlsym_answer(void *handle, const char *name, const char *version,
                                      void *caller) {
    asked = (struct call){handle, name, version, caller, (uintptr_t)__builtin_frame_address(0)};
    change_registers();
    return answer;
}

/* libc's function: it takes its caller from its own return address. */
static void *libc_function(void *handle, const char *name, const char *version) {
    entered = (struct call){handle, name, version, __builtin_return_address(0),
                            (uintptr_t)__builtin_frame_address(0)};
    return &entered;
}

typedef void *ask_fn(void *handle, const char *name, const char *version);

/* Volatile: no tail call, the callers are these. */
static __attribute__((noinline)) void *ask(void *handle, const char *name, const char *version) {
    (void)version;
    void *volatile found = gated_dlsym(handle, name);
    return found;
}

static __attribute__((noinline)) void *ask_version(void *handle, const char *name,
                                                   const char *version) {
    void *volatile found = gated_dlvsym(handle, name, version);
    return found;
}

/* A caller with something in every register that a function must keep. */
static uint64_t keep(ask_fn *function, void *handle, const char *name, const char *version,
                     void **found) {
    uint64_t changed;
#ifdef __aarch64__
    __asm__ volatile(
        "mov x0, %[handle]\n mov x1, %[name]\n mov x2, %[version]\n"
        "mov x9, %[function]\n"
        "mov x20, #20\n mov x21, #21\n mov x22, #22\n mov x23, #23\n mov x24, #24\n"
        "fmov d8, x20\n fmov d9, x21\n fmov d14, x22\n fmov d15, x23\n"
        "blr x9\n"
        "mov %[found], x0\n"
        "fmov x9, d8\n fmov x10, d9\n fmov x11, d14\n fmov x12, d15\n"
        "sub x9, x9, #20\n sub x10, x10, #21\n sub x11, x11, #22\n sub x12, x12, #23\n"
        "orr x9, x9, x10\n orr x9, x9, x11\n orr x9, x9, x12\n"
        "sub x20, x20, #20\n sub x21, x21, #21\n sub x22, x22, #22\n"
        "sub x23, x23, #23\n sub x24, x24, #24\n"
        "orr x9, x9, x20\n orr x9, x9, x21\n orr x9, x9, x22\n orr x9, x9, x23\n"
        "orr %[changed], x9, x24\n"
        : [changed] "=&r"(changed), [found] "=&r"(*found)
        : [handle] "r"(handle), [name] "r"(name), [version] "r"(version), [function] "r"(function)
        : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
          "x14", "x15", "x16", "x17", "x20", "x21", "x22", "x23", "x24", "x30", "d8", "d9", "d14",
          "d15", "cc", "memory");
#else
    register void *result __asm__("rax");
    register void *first __asm__("rdi") = handle;
    register const char *second __asm__("rsi") = name, *third __asm__("rdx") = version;
    __asm__ volatile("mov $20, %%r12\n mov $21, %%r13\n mov $22, %%r14\n mov $23, %%r15\n"
                     "call *%[function]\n"
                     "sub $20, %%r12\n sub $21, %%r13\n sub $22, %%r14\n sub $23, %%r15\n"
                     "or %%r12, %%r13\n or %%r14, %%r15\n or %%r13, %%r15\n mov %%r15, %%rcx\n"
                     : "=a"(result), "=&c"(changed), "+r"(first), "+r"(second), "+r"(third)
                     : [function] "b"(function)
                     : "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory");
    *found = result;
#endif
    return changed;
}

/* dlsym has no version: what lies in the third register is the caller's. */
static void expect(ask_fn *function, bool versioned, bool passed_on) {
    int handle;
    const char *version = "GLIBC_2.17";
    const char *name = "which";
    answer = passed_on ? (struct dlsym_answer){.tail = (void *)libc_function}
                       : (struct dlsym_answer){.value = &answer};
    asked = entered = (struct call){0};
    CHECK(function(&handle, name, version) == (passed_on ? (void *)&entered : (void *)&answer));
    CHECK(asked.handle == &handle && asked.name == name);
    CHECK(asked.version == (versioned ? version : NULL));
    uintptr_t inside = (uintptr_t)asked.caller - (uintptr_t)function;
    CHECK(inside > 0 && inside < 256);
    CHECK(asked.frame % 16 == 0); /* where a frame begins, both ABIs want the stack aligned */
    if (passed_on) {
        CHECK(entered.handle == &handle && entered.name == name);
        CHECK(!versioned || entered.version == version);
        CHECK(entered.caller == asked.caller);
        CHECK(entered.frame % 16 == 0);
    }
    void *found;
    CHECK(keep(function, &handle, name, version, &found) == 0);
    CHECK(found == (passed_on ? (void *)&entered : (void *)&answer));
}

int main(void) {
    for (int passed_on = 0; passed_on < 2; passed_on++) {
        expect(ask, false, passed_on != 0);
        expect(ask_version, true, passed_on != 0);
    }
    return 0;
}
