#!/bin/bash
# Runs one test program that has a sanitizer in it: NAME with the sanitized hook linked to it, or
# preloaded/NAME with the ordinary one preloaded. Any finding is a failure.
set -euo pipefail

if [[ $# -ne 2 ]]; then
    echo "usage: $0 BUILD_FOLDER [preloaded/]NAME" >&2
    exit 2
fi
build=$(realpath "$1")
name=$(basename "$2")
program=$build/${2%"$name"}test_$name
title="$(basename "$build") ${2//[_\/]/ }"
tests=$(realpath "$(dirname "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# Findings go to files of their own, also those of children whose status is not looked at; but those
# of undefined behaviour go to the output, whatever log_path says, in a program with both. What is
# still allocated at the end isn't asked for: contexts, tables and mappings of the hook and of the
# programs live as long as the process, and children end by _Exit or a signal.
export TEST_BUILD=$build
log=log_path=$folder/finding
export ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=1:$log"
export UBSAN_OPTIONS="print_stacktrace=1"
export TSAN_OPTIONS="die_after_fork=0:suppressions=$tests/thread_sanitizer.supp:$log"

run=(env "LD_LIBRARY_PATH=$build:$build/driver")
if [[ $2 == preloaded/* ]]; then
    plain=$(realpath "$build/../../test")
    preload=$plain/libvcuda.so
    # gcc's address sanitizer wants to come first, and says so; to the other the hook comes first,
    # as it does by /etc/ld.so.preload.
    runtime=$(ldd "$program" | awk '/libasan/ { print $3 }')
    run=(env "LD_LIBRARY_PATH=$plain/driver" "LD_PRELOAD=${runtime:+$runtime:}$preload")
fi
# The thread sanitizer of gcc 12 finds no room for its shadow where addresses have more than 28
# random bits (vm.mmap_rnd_bits); where personality(2) is allowed, they have none.
if setarch --addr-no-randomize true 2>/dev/null; then
    run=(setarch --addr-no-randomize "${run[@]}")
fi

status=0
timeout 300 "${run[@]}" "$program" >output 2>&1 || status=$?
# A program that launches compares with the clock, which a sanitizer slows down: that is for
# tests/run.sh, and a check that fails is no finding.
if [[ $status -eq 1 ]] && grep -qs '"launching.h"' "$tests"/*/"test_$name.c"; then
    status=0
fi
if compgen -G 'finding*' >/dev/null || grep -q 'runtime error:' output; then
    status=finding
fi
if [[ $status == 0 ]]; then
    echo "ok $title"
else
    echo "FAILED $title (status $status)"
    cat output
    cat finding* 2>/dev/null || true
    exit 1
fi
