"""Gather what the checks on a card need into one small folder: ``python -m tests.gpu.bundle``.

A machine with a card may have no network, no compiler and another Python. So the hook, our program
and NVIDIA's runtimes are brought along; what can't be had is left out, and the checks that need it
say so. ``--python 3.12`` adds what the agent imports, for that Python: elastic shares and
neighbours need an agent.
"""

import argparse
import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import pytest

from tests.hook.container import HOOK, make
from tests.hook.drivers import wheels
from tests.testbed import paths, progress

FOLDER: Final = paths.REPOSITORY / "build" / "gpu"
PROGRAMS: Final = pathlib.Path(__file__).parent / "programs"
RUNTIMES: Final = {
    "11.8": ("cudart-11.8", "libcudart.so.11.0"),
    "12.9": ("cudart-12.9", "libcudart.so.12"),
    "13": ("cudart-13", "libcudart.so.13"),
}
"""The lock file and the library of each version of NVIDIA's runtime."""

HOOK_FILES: Final = ("libvcuda.so", "gpustack-hook-selftest")


def runtime(version: str) -> pathlib.Path:
    """Return where a version's runtime lies, whether it is there or not."""
    return FOLDER / RUNTIMES[version][1]


def hook_folder(*, named_paths: bool) -> pathlib.Path:
    """Return the folder of the hook: the product's, or the one that reads its working folder."""
    return FOLDER / ("hook" if named_paths else "hook-beside")


def gather() -> None:
    """Build the hook and the tenant, and bring NVIDIA's runtimes."""
    make(HOOK, "all", "out/test/libvcuda.so", "out/test/gpustack-hook-selftest")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for source, named in ((platform.machine(), True), ("test", False)):
        target = hook_folder(named_paths=named)
        target.mkdir(exist_ok=True)
        for name in HOOK_FILES:
            _replace(HOOK / "out" / source / name, target / name)
    _build_tenant()
    for version in RUNTIMES:
        _bring_runtime(version)


def make_runnable() -> bool:
    """Say whether the programs are there; on the way to another machine files may lose their bits.

    Raises:
        OSError: the folder belongs to another user.
    """
    programs = [FOLDER / "tenant"]
    programs += [hook_folder(named_paths=named) / HOOK_FILES[1] for named in (True, False)]
    if not all(program.exists() for program in programs):
        return False
    for program in programs:
        program.chmod(0o755)
    return True


def gather_agent(python: str) -> None:
    """Bring the wheels of what the agent imports, for another machine's Python."""
    target = FOLDER / "wheels"
    shutil.rmtree(target, ignore_errors=True)
    lock = paths.REPOSITORY / "requirements-hosts.lock"
    architecture = platform.machine()
    platforms = [f"manylinux_2_{minor}_{architecture}" for minor in (28, 27, 24, 17, 12, 5)]
    platforms += [f"manylinux2014_{architecture}", f"linux_{architecture}"]
    options = [
        *("--only-binary=:all:", "--no-deps", "--require-hashes"),
        *("--implementation=cp", f"--python-version={python}"),
        *(f"--platform={each}" for each in platforms),
        *(f"--dest={target}", f"--requirement={lock}"),
    ]
    progress.call([sys.executable, "-m", "pip", "download", *options], log="gpu-wheels")


def _build_tenant() -> None:
    target = f"{platform.machine()}-linux-gnu.2.17"  # runs on any machine that has a driver
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target]
    partial = FOLDER / "tenant.new"
    command = [*compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-std=c11", "-D_GNU_SOURCE"]
    progress.call([*command, PROGRAMS / "tenant.c", "-ldl", "-o", partial], log="gpu-tenant")
    partial.rename(FOLDER / "tenant")


def _bring_runtime(version: str) -> None:
    lock, name = RUNTIMES[version]
    try:
        (library,) = wheels.installed(lock).rglob(name)
    except (pytest.skip.Exception, pytest.fail.Exception) as why:
        print(f"    without NVIDIA's runtime {version}: {why}", file=sys.stderr)
        return
    _replace(library, FOLDER / name)


def _replace(source: pathlib.Path, target: pathlib.Path) -> None:
    """Put a copy in place with one rename: a program may have the old one mapped."""
    partial = target.with_name(f"{target.name}.new")
    shutil.copy(source, partial)
    partial.rename(target)


def main(arguments: Sequence[str] | None = None) -> int:
    """Gather, and say where and how much."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.bundle", description=__doc__)
    parser.add_argument("--python", metavar="X.Y", help="also what the agent imports, for it")
    python = parser.parse_args(arguments).python
    with progress.step("what the checks on a card need"):
        gather()
    if python is not None:
        with progress.step(f"what the agent imports, for Python {python}"):
            gather_agent(python)
    size = subprocess.run(["du", "-sh", FOLDER], check=True, capture_output=True, text=True)
    print(f"    {FOLDER.relative_to(paths.REPOSITORY)}: {size.stdout.split()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
