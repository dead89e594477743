"""Keeps what Python compiles of a zip, as it keeps what it compiles of a folder.

Ansible sends its library as a zip with every module, and Python compiles it anew for each task:
half of the processor time of a module that does little. Python reads a file of this name at its
start. Only tests use it: those of roles by PYTHONPATH, hosts of the testbed as Python's own file.
"""

import importlib.util
import marshal
import os
import types
import zipimport
from typing import Any

_FOLDER = os.environ.get("GPUSTACK_COMPILED", "/run/gpustack-testbed-compiled")
# Python's own (CPython, Lib/zipimport.py); nothing is kept of one that has none.
_compile: Any = getattr(zipimport, "_compile_source", None)


def _kept(pathname: str, source: bytes) -> types.CodeType:
    name = pathname.rpartition(".zip/")[2].replace("/", ".")
    path = f"{_FOLDER}/{name}-{importlib.util.source_hash(source).hex()}"
    try:
        with open(path, "rb") as file:
            found: types.CodeType = marshal.load(file)  # noqa: S302 the tests' own
            return found
    except (OSError, ValueError, EOFError, TypeError):
        found = _compile(pathname, source)
    try:
        os.makedirs(_FOLDER, mode=0o700, exist_ok=True)
        with open(f"{path}.{os.getpid()}", "wb") as file:
            marshal.dump(found, file)
        os.replace(f"{path}.{os.getpid()}", path)
    except OSError:
        pass  # compiled again for the next task
    return found


if _compile:
    zipimport._compile_source = _kept  # type: ignore[attr-defined]
