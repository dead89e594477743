#!/usr/bin/env bash
# Try the HTTP server with the newest gunicorn there is, beyond the bound of pyproject.toml:
# tests/outlook.sh VENV FOLDER
# FOLDER becomes a virtual environment of its own, which takes everything but gunicorn from VENV.
set -euo pipefail

venv=$1 new=$2
root=$(cd "$(dirname "$0")/.." && pwd)
where='import sysconfig; print(sysconfig.get_path("purelib"))'
version='import gunicorn; print(gunicorn.__version__)'

rm -rf "$new"
"$venv/bin/python" -m venv --without-pip "$new"
"$venv/bin/python" -c "$where" >"$("$new/bin/python" -c "$where")/locked.pth"
# as in tests/setup.sh
export UV_SYSTEM_CERTS=true UV_NATIVE_TLS=true
VIRTUAL_ENV=$new "$venv/bin/uv" pip install --quiet --prerelease allow --upgrade gunicorn
locked=$("$venv/bin/python" -c "$version")
newest=$("$new/bin/python" -c "$version")
echo "outlook: gunicorn $newest; locked is $locked"

folder=$(mktemp -d /tmp/gs.XXXX)
trap 'rm -rf "$folder"' EXIT
cd "$root"
"$new/bin/python" -m pytest -q -n 2 --dist loadfile --basetemp="$folder/t" \
    tests/extender/http tests/extender/tls || {
    echo "outlook: gunicorn $newest breaks the HTTP server; its names stand in extender/http/gunicorn_server.py" >&2
    exit 1
}
