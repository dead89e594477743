"""CUDA clients from the Python package index, installed into the cache, one folder a lock file.

There are several lock files because one can't hold two versions of a package.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from tests.hook.drivers.debian import give_up
from tests.testbed import paths, progress

LOCKS = pathlib.Path(__file__).parents[1] / "locks"


def installed(name: str) -> pathlib.Path:
    """Return the folder with the packages of ``locks/NAME.txt``; installed once, then kept."""
    lock = LOCKS / f"{name}.txt"
    digest = progress.output(["sha256sum", lock])[:12]
    folder = paths.cache("wheels") / f"{name}-{sys.implementation.cache_tag}-{digest}"
    with progress.exclusive(folder.name):
        if not folder.exists():
            _install(lock, folder)
    return folder


def _install(lock: pathlib.Path, folder: pathlib.Path) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    options = [
        "--only-binary=:all:",
        "--no-compile",
        f"--target={partial}",
        f"--requirement={lock}",
    ]
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    result = subprocess.run(
        [*command, *options], check=False, capture_output=True, text=True, env=environment
    )
    if result.returncode != 0:
        give_up(f"{lock.name} can't be installed: {result.stderr.strip()[-500:]}")
    partial.rename(folder)
