#!/usr/bin/env bash
# Ask a public database for known vulnerabilities of the locked packages: tests/audit.sh VENV FOLDER LOCK...
# FOLDER becomes a virtual environment for pip-audit, whose packages have a lock of their own.
# Fails where there are any, and where no database answers: then nothing was audited, and it says SKIPPED.
set -euo pipefail

venv=$1 tools=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)

skipped() {
    echo "audit: SKIPPED, nothing was audited: $1 (the reason stands above)" >&2
    exit 1
}

if ! [ -e "$tools/.complete" ]; then
    rm -rf "$tools"
    "$venv/bin/python" -m venv --without-pip "$tools"
    # as in tests/setup.sh
    export UV_SYSTEM_CERTS=true UV_NATIVE_TLS=true
    VIRTUAL_ENV=$tools "$venv/bin/uv" pip install --quiet --require-hashes -r "$root/requirements-audit.lock" ||
        skipped "pip-audit can't be installed"
    touch "$tools/.complete"
fi

# It writes a table to its standard output where the database knows some, and nothing where that doesn't answer.
if found=$("$tools/bin/pip-audit" --strict --require-hashes --disable-pip --progress-spinner off "${@/#/--requirement=}"); then
    echo "audit: no known vulnerabilities in $*"
elif [ -n "$found" ]; then
    echo "$found"
    echo "audit: raise these packages' bounds in pyproject.toml, then run make lock" >&2
    exit 1
else
    skipped "the database didn't answer for every package"
fi
