/*
 * dlsym and dlvsym. libc's take the caller from their own return address to know what RTLD_NEXT
 * and RTLD_DEFAULT mean for it. So a name that isn't gated goes on by a jump that leaves the stack
 * and the return address as the caller made them; a C function can't promise that, and one that a
 * sanitizer has instrumented would call dlsym before the sanitizer is up.
 *
 *   struct dlsym_answer hook_dlsym_answer(void *handle, const char *name, const char *version,
 *                                         void *caller);
 *
 * returns {value, tail}: jump to tail with the caller's arguments, or return value where tail is
 * NULL.
 */
#if defined(__x86_64__)

    .text
    .macro GATE name, versioned
    .globl \name
    .type \name, @function
    .balign 16
\name:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    .if !\versioned
    xorl %edx, %edx
    .endif
    movq 24(%rsp), %rcx
    call hook_dlsym_answer
    movq %rdx, %r11
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %r11, %r11
    jz 1f
    jmp *%r11
1:  ret
    .cfi_endproc
    .size \name, . - \name
    .endm

#elif defined(__aarch64__)

    .text
    .macro GATE name, versioned
    .globl \name
    .type \name, %function
    .balign 16
\name:
    .cfi_startproc
    hint #34 /* bti c */
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    mov x29, sp
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    .if !\versioned
    mov x2, #0
    .endif
    mov x3, x30
    bl hook_dlsym_answer
    mov x16, x1
    cbz x16, 1f
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    .cfi_remember_state
    ldp x29, x30, [sp], #48
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    br x16
    .cfi_restore_state
1:  ldp x29, x30, [sp], #48
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    ret
    .cfi_endproc
    .size \name, . - \name
    .endm

#else
#error "the hook is written for x86-64 and aarch64"
#endif

    .hidden hook_dlsym_answer
    GATE dlsym, 0
    GATE dlvsym, 1

    .section .note.GNU-stack,"",%progbits
