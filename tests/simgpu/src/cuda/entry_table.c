/* The exported symbols of one driver generation: stubs, their targets, their names.
 *
 * entries.def declares implementations under assembler names of their own (impl_cuInit), so that
 * calls inside the library reach them directly; only a program's call passes a stub. `ENTRIES` is
 * made by entries.awk from a generation's list of names. */
#include "entry.h"

#ifndef __x86_64__
#error "the stubs are written for x86-64"
#endif

__asm__(".text\n"
        ".type entry_gate,@function\n"
        "entry_gate:\n" /* all argument registers survive the check; r11: the entry's number */
        "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n  push %r11\n"
        "  sub $16,%rsp\n"
        "  movsd %xmm0,(%rsp)\n" /* cuParamSetf: the only argument that is no integer */
        "  mov %r11d,%edi\n"
        "  call entry_check\n"
        "  movsd (%rsp),%xmm0\n"
        "  add $16,%rsp\n"
        "  pop %r11\n  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
        "  test %eax,%eax\n"
        "  jne 1f\n"
        "  lea entry_targets(%rip),%rax\n"
        "  jmp *(%rax,%r11,8)\n"
        "1: ret\n"
        ".size entry_gate,.-entry_gate\n");

#define ENTRY(index, symbol, target, name, since, found)                                           \
    __asm__(".globl " #symbol "\n.type " #symbol ",@function\n.balign 16\n" #symbol ":\n"          \
            "  endbr64\n  mov $" #index ",%r11d\n  jmp entry_gate\n.size " #symbol ",.-" #symbol); \
    extern char stub_##index[] __asm__(#symbol);                                                   \
    extern char target_##index[] __asm__(#target);
#include ENTRIES
#undef ENTRY

#define ENTRY(index, symbol, target, name, since, found) target_##index,
__attribute__((used, visibility("hidden"))) char *const entry_targets[] = {
#include ENTRIES
};
#undef ENTRY

const struct entry entries[] = {
#define ENTRY(index, symbol, target, name, since, found)                                           \
    {#symbol, name, since, found, stub_##index},
#include ENTRIES
#undef ENTRY
};
const unsigned entry_count = sizeof entries / sizeof entries[0];
const int library_cuda = LIBRARY_CUDA;
