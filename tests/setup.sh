#!/usr/bin/env bash
# Make the project's virtual environment from the lock file: tests/setup.sh FOLDER
# Needs Python >= 3.11 and a package index that pip reaches; on Debian it installs what Debian splits off.
set -euo pipefail

venv=$1
root=$(cd "$(dirname "$0")/.." && pwd)

missing=()
# the distribution's own before any other: hosts run agent and extender on it
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
python=/usr/bin/python3
"$python" -c "$new_enough" 2>/dev/null || python=python3
"$python" -c "$new_enough" || {
    echo "setup: python3 is $(python3 --version 2>&1); 3.11 or newer is needed" >&2
    exit 1
}
"$python" -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
command -v git >/dev/null || missing+=(git)
command -v gcc >/dev/null || missing+=(gcc)
[ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
# what unit tests look with: ps, and systemd's judgement of our units
command -v ps >/dev/null || missing+=(procps)
command -v systemd-analyze >/dev/null || missing+=(systemd)
# a release's signature
command -v ssh-keygen >/dev/null || missing+=(openssh-client)
# a file system where a read waits for a write
command -v mkfs.xfs >/dev/null || missing+=(xfsprogs)
# the hook's fuzzers
command -v clang-14 >/dev/null || missing+=(clang-14)
compgen -G '/usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a' >/dev/null || missing+=(libclang-rt-14-dev)
# the dashboard's tests; Ubuntu's package of this name is a snap, which few test machines can run
if grep -qx 'ID=debian' /etc/os-release; then
    command -v chromium >/dev/null || missing+=(chromium)
    command -v chromedriver >/dev/null || missing+=(chromium-driver)
    [ -d /usr/share/fonts/truetype/dejavu ] || missing+=(fonts-dejavu-core)
fi
if [ "${#missing[@]}" -gt 0 ]; then
    echo "setup: installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null
fi

# two checkouts may want the same environment at the same time
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
if [ -e "$venv/.complete" ]; then
    echo "setup: another run has made $venv"
    exit 0
fi
rm -rf "$venv"
"$python" -m venv "$venv"
# uv resolves nothing here: it only installs the locked files, in seconds instead of minutes
# (pip trusts what the machine trusts; uv, which brings its own list, has to be told: a network may have its own authority)
export UV_SYSTEM_CERTS=true UV_NATIVE_TLS=true
"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$root/requirements-setup.lock"
VIRTUAL_ENV=$venv "$venv/bin/uv" pip install --quiet --require-hashes -r "$root/requirements.lock"
echo "setup: $("$venv/bin/python" --version), $(grep -c '^[a-z0-9]' "$root/requirements.lock") locked packages"
touch "$venv/.complete"
