#!/bin/bash
# Checks what a built hook needs and shows: libc alone, glibc 2.17 at most, the listed names only, and
# hardly an address to relocate: each process that preloads it pays for each, CUDA or not.
set -euo pipefail

if [[ $# -ne 2 ]]; then
    echo "usage: $0 FOLDER EXPORTS_MAP" >&2
    exit 2
fi
library=$1/libvcuda.so
selftest=$1/gpustack-hook-selftest
exports=$2
status=0

complain() {
    echo "$*" >&2
    status=1
}

needed() {
    readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | paste -sd' '
}

# The highest GLIBC_ version that a file asks for.
newest_glibc() {
    readelf -VW "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1
}

[[ $(needed "$library") == libc.so.6 ]] || complain "$library needs $(needed "$library")"
# libdl is glibc's too: where dlopen lies before 2.34.
[[ $(needed "$selftest") == "libc.so.6 libdl.so.2" ]] ||
    complain "$selftest needs $(needed "$selftest")"

for file in "$library" "$selftest"; do
    newest=$(newest_glibc "$file")
    [[ $(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -1) == GLIBC_2.17 ]] ||
        complain "$file needs $newest"
    readelf -lW "$file" | grep -q GNU_RELRO || complain "$file has no RELRO segment"
    ! readelf -lW "$file" | grep GNU_STACK | grep -q RWE || complain "$file has an executable stack"
done

exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort)
listed=$(grep -oE '\b(cu|nvml|dl)[A-Za-z0-9_]*' "$exports" | sort)
[[ $exported == "$listed" ]] ||
    complain "$library: exported and listed names differ:
$(diff <(echo "$exported") <(echo "$listed"))"

! readelf -dW "$library" | grep -qE '\((INIT|FINI)' || complain "$library has constructors"
addresses=$(readelf -rW "$library" | grep -c _RELATIVE || true)
[[ $addresses -le 8 ]] || complain "$library: $addresses addresses to relocate, not 8: a table of pointers?"
[[ $status -eq 0 ]] && echo "ok $1: needs libc alone, glibc <= 2.17, exports what is listed"
exit "$status"
