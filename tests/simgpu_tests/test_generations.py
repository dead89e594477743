"""Driver generations: their exports, and the answers of cuGetProcAddress."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simgpu_tests.machine import OUT, SOURCE, Machine

pytestmark = pytest.mark.long  # toolkits' headers come from PyPI, once

UNKNOWN = ["500", "kept", "0", "1", "null"]


@pytest.fixture(scope="module")
def generations() -> Path:
    """The libraries of the derived generations are built."""
    make = ["make", "-s", "-C", str(SOURCE), "generations", f"PYTHON={sys.executable}"]
    subprocess.run(make, check=True)
    return OUT / "generation"


def exported(library: Path) -> set[str]:
    lines = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True)
    return {line.split()[-1] for line in lines.splitlines()}


def ask(machine: Machine, library: Path | None, *questions: str) -> list[list[str]]:
    """The answers to a process on this library; None: the default one."""
    env = machine.env
    if library:
        env["LD_LIBRARY_PATH"] = str(library)
    done = subprocess.run(
        [str(OUT / "tests/resolve")],
        input="\n".join(questions),
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split() for line in done.stdout.splitlines()]


def test_names_derived_from_12_2_are_names_of_driver_535(tmp_path: Path) -> None:
    """The derivation is right where it can be checked: every line of it stands in the real list."""
    cache = Path(os.environ.get("HOME", tmp_path)) / ".cache/gpustack/cuda-headers/12.2"
    command = [sys.executable, str(SOURCE / "headers.py")]
    subprocess.run([*command, "fetch", "12.2", str(cache)], check=True)
    derived = subprocess.check_output([*command, "names", "12.2", str(cache)], text=True)
    lines = {line for line in derived.splitlines() if not line.startswith("#")}
    real = set((SOURCE / "src/cuda/names-535.txt").read_text().splitlines())
    assert len(lines) == 552
    assert lines <= real


@pytest.mark.parametrize(
    ("generation", "present", "absent"),
    [
        ("11.8", "cuLaunchKernelEx", "cuGetProcAddress_v2"),
        ("12.9", "cuCtxCreate_v4", "cuGraphAddNode_v3"),
        ("13", "cuGraphAddNode_v3", "cuNothing"),
    ],
)
def test_a_generation_exports_its_own_names(
    generations: Path, generation: str, present: str, absent: str
) -> None:
    names = exported(generations / generation / "libcuda.so.1")
    assert present in names
    assert absent not in names


@pytest.mark.parametrize(
    ("generation", "version"), [("11.8", "11080"), ("12.9", "12090"), ("12.2", "12020")]
)
def test_a_generation_says_the_version_of_its_toolkit(
    generations: Path, machine: Machine, generation: str, version: str
) -> None:
    script = (
        "import ctypes; version = ctypes.c_int();"
        "ctypes.CDLL('libcuda.so.1').cuDriverGetVersion(ctypes.byref(version));"
        "print(version.value)"
    )
    env = machine.env | {"SIMGPU_GENERATION": generation}
    if (generations / generation).exists():
        env["LD_LIBRARY_PATH"] = str(generations / generation)
    said = subprocess.check_output([sys.executable, "-c", script], env=env, text=True)
    assert said.strip() == version


def test_a_newer_library_answers_for_its_version(
    generations: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMGPU_GENERATION", "12.9")
    (newer,) = ask(machine, generations / "12.9", "cuGraphAddNode 12090 0")
    assert newer[-1] == "cuGraphAddNode_v2"
    (older,) = ask(machine, None, "cuGraphAddNode 12090 0")
    assert older[-1] == "cuGraphAddNode"  # the default library has no other


@pytest.mark.parametrize("way", ["environment", "description"])
def test_an_older_driver_does_not_know_newer_names(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "environment":
        monkeypatch.setenv("SIMGPU_GENERATION", "11.8")
    else:
        machine.describe({"cuda": "11.8", "cards": [{"minor": 0}]})
        machine.run("bin/simgpu", "init")
    asked = ["cuGraphAddNode 12020 0", "cuGraphInstantiate 12020 0", "cuGetProcAddress 12020 0"]
    node, instantiate, resolver = ask(machine, None, *asked)
    assert node == UNKNOWN
    assert instantiate[-1] == "cuGraphInstantiate_v2"
    assert resolver[-1] == "cuGetProcAddress"


POOLS_BY_LOCATION = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]
def ask(call, *args):
    print(call(*args), end=" ")
    return args[0]._obj.value if hasattr(args[0], "_obj") else None
cuda.cuInit(0)
pool, card, host = ctypes.c_void_p(), Location(1, 1), Location(2, 0)
out, pinned = ctypes.byref(pool), 1
default = ask(cuda.cuMemGetDefaultMemPool, out, ctypes.byref(card), pinned)
print(default == ask(cuda.cuDeviceGetDefaultMemPool, out, 1), end=" ")
print(default == ask(cuda.cuMemGetMemPool, out, ctypes.byref(card), pinned), end=" ")
cuda.cuMemSetMemPool.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
print(cuda.cuMemSetMemPool(ctypes.addressof(card), pinned, default), end=" ")
print(cuda.cuMemGetMemPool(out, ctypes.byref(host), pinned), end=" ")
print(cuda.cuMemGetMemPool(out, ctypes.byref(card), 0))
"""


def test_a_newer_library_names_pools_by_location(generations: Path, machine: Machine) -> None:
    env = machine.env | {"LD_LIBRARY_PATH": str(generations / "13"), "SIMGPU_GENERATION": "13.0"}
    command = [sys.executable, "-c", POOLS_BY_LOCATION]
    said = subprocess.check_output(command, env=env, text=True)
    assert said.split() == ["0", "0", "True", "0", "True", "0", "801", "1"]
