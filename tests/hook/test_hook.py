"""The hook's own programs, one behaviour each, on a small fake driver with injected faults."""

import os
import pathlib
import shutil
import subprocess

import pytest

from tests.hook.container import HOOK, PROGRAMS, ROOT, make


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(build: pathlib.Path, program: str) -> None:
    command = [str(HOOK / "tests" / "run.sh"), str(build / "test"), program]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_program_on_overlayfs(build: pathlib.Path, overlay: pathlib.Path, program: str) -> None:
    command = [str(HOOK / "tests" / "run.sh"), str(build / "test"), program]
    environment = os.environ | {"TMPDIR": str(overlay)}
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_file_needs_libc_alone_and_exports_the_list(build: pathlib.Path, arch: str) -> None:
    command = [
        str(HOOK / "tests" / "check_files.sh"),
        str(build / arch),
        str(build / "exports.map"),
    ]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_build_in_another_folder_gives_the_same_bytes(
    build: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for name in ("include", "src", "selftest"):
        shutil.copytree(HOOK / name, tmp_path / "hook" / name)
    shutil.copy(HOOK / "Makefile", tmp_path / "hook")
    (tmp_path / "gpustack").mkdir()
    shutil.copy(ROOT / "gpustack" / "__init__.py", tmp_path / "gpustack")
    files = ["x86_64/libvcuda.so", "x86_64/gpustack-hook-selftest"]
    make(tmp_path / "hook", *(f"out/{file}" for file in files))
    for file in files:
        assert (tmp_path / "hook" / "out" / file).read_bytes() == (build / file).read_bytes()
