#!/bin/bash
# Runs one test program as a container would: the hook preloaded, its files in a folder of its own.
set -euo pipefail

if [[ $# -ne 2 ]]; then
    echo "usage: $0 BUILD_FOLDER NAME" >&2
    exit 2
fi
build=$(realpath "$1")
name=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

if LD_PRELOAD="$build/libvcuda.so" LD_LIBRARY_PATH="$build/driver" TEST_BUILD="$build" \
    timeout 30 "$build/test_$name" >output 2>&1; then
    echo "ok ${name//_/ }"
else
    echo "FAILED ${name//_/ } (status $?)"
    cat output
    exit 1
fi
