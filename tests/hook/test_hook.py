"""The hook's own programs, one behaviour each, on a small fake driver with injected faults."""

import os
import pathlib
import shutil
import subprocess

import pytest

from tests.hook.container import HOOK, PROGRAMS, ROOT, make

TESTS = HOOK / "tests"
# They launch for some of the clock's time and measure their part of it.
TIMED = [name for name, path in PROGRAMS.items() if '"launching.h"' in path.read_text()]
OTHERS = sorted({*PROGRAMS} - {*TIMED})
# Thousands of instructions, one by one.
SLOW = {"every_family_survives_a_kill_anywhere"}


def run_program(build: pathlib.Path, program: str, **environment: str) -> None:
    result = subprocess.run(
        [str(TESTS / "run.sh"), str(build / "test"), program],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("program", sorted({*OTHERS} - SLOW))
def test_program(build: pathlib.Path, program: str) -> None:
    run_program(build, program)


@pytest.mark.long
@pytest.mark.parametrize("program", sorted(SLOW))
def test_slow_program(build: pathlib.Path, program: str) -> None:
    run_program(build, program)


@pytest.mark.long
@pytest.mark.parametrize("program", OTHERS)
def test_program_on_overlayfs(build: pathlib.Path, overlay: pathlib.Path, program: str) -> None:
    run_program(build, program, TMPDIR=str(overlay))


@pytest.mark.clock
@pytest.mark.parametrize("program", TIMED)
def test_program_beside_the_clock(build: pathlib.Path, program: str) -> None:
    run_program(build, program)


def play_shares(build: pathlib.Path, *options: str) -> None:
    make(HOOK, "out/test/sim_share")
    command = [str(build / "test" / "sim_share"), *options]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.long
@pytest.mark.parametrize("known", [(), ("--good",)], ids=["may err", "good"])
def test_shares_hold_in_virtual_time(build: pathlib.Path, known: tuple[str, ...]) -> None:
    play_shares(build, *known)


@pytest.mark.long
@pytest.mark.parametrize("counted", ["--lag=0", "--lag=4"], ids=["exact", "late"])
def test_two_seconds_of_short_kernels_are_near_the_shares(
    build: pathlib.Path, counted: str
) -> None:
    play_shares(build, "--spans", "--good", counted)


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_file_needs_libc_alone_and_exports_the_list(build: pathlib.Path, arch: str) -> None:
    command = [
        str(HOOK / "tests" / "check_files.sh"),
        str(build / arch),
        str(build / "exports.map"),
    ]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.long
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
