"""The CUDA driver API of one process: each check is a function in simgpu/tests."""

import re
import subprocess

import pytest

from tests.simgpu_tests.machine import OUT, SOURCE, Machine

TEXTS = {path.stem: path.read_text() for path in sorted((SOURCE / "tests").glob("*/contract_*.c"))}
CHECKS = {program: re.findall(r"CHECK\((\w+)\)", text) for program, text in TEXTS.items()}
# What they measure begins within 100 ms of the program's own calls.
TIMED = {"contract_engines": pytest.mark.clock}


@pytest.mark.parametrize(
    ("program", "check"),
    [
        pytest.param(program, check, marks=TIMED.get(program, ()))
        for program, all_ in CHECKS.items()
        for check in all_
    ],
)
def test_cuda(machine: Machine, program: str, check: str) -> None:
    machine.run(f"tests/{program}", check)


@pytest.mark.parametrize("program", CHECKS)
def test_every_check_is_listed(machine: Machine, program: str) -> None:
    written = re.findall(r"^static void (\w+)\(void\) \{", TEXTS[program], flags=re.MULTILINE)
    assert written == CHECKS[program] == machine.run(f"tests/{program}").stdout.split()


def table_entries(table: str, macros: dict[str, str]) -> dict[str, tuple[str, int]]:
    """The symbols of an entries.def, with their names and first versions in cuGetProcAddress.

    `macros` maps a macro to the suffix of its twin.
    """
    text = re.sub(r"/\*.*?\*/", "", (SOURCE / "src" / table).read_text(), flags=re.DOTALL)
    found = {}
    for macro, args in re.findall(r"^(\w+)\(([^(]*)\(", text, flags=re.MULTILINE):
        names = [name.strip() for name in args.split(",")]
        symbol = names[1] if len(names) > 2 else names[0]
        since = int(names[2]) if len(names) > 3 else 0
        found[symbol] = (names[0], since)
        if macros[macro]:
            found[symbol + macros[macro]] = (names[0], max(since, 7000))
    return found


def names_of_535() -> dict[str, tuple[str, int]]:
    """The exports of driver 535: symbol to name and CUDA version."""
    lines = (SOURCE / "src/cuda/names-535.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {symbol: (name, int(since)) for symbol, name, since, _ in rows}


def exported(library: str) -> set[str]:
    lines = subprocess.check_output(["nm", "-D", "--defined-only", str(OUT / "lib" / library)])
    return {line.split()[-1] for line in lines.decode().splitlines()}


CUDA_MACROS = {"API": "", "STREAM": "_ptsz", "DEFAULT": "_ptds"}


def test_libcuda_exports_exactly_what_driver_535_does() -> None:
    assert exported("libcuda.so.1") == set(names_of_535())


def test_entries_have_the_names_and_versions_of_driver_535() -> None:
    real = names_of_535()
    newer = {}
    for symbol, (name, since) in table_entries("cuda/entries.def", CUDA_MACROS).items():
        if symbol in real:
            assert real[symbol] == (name, since), symbol
        else:
            newer[symbol] = since
    assert min(newer.values()) > 12020, newer


def test_libnvidia_ml_exports_exactly_its_table() -> None:
    table = table_entries("nvml/entries.def", {"NVML": ""})
    assert exported("libnvidia-ml.so.1") == set(table) | {"nvmlErrorString"}


@pytest.mark.parametrize("library", ["libcuda.so.1", "libnvidia-ml.so.1"])
def test_libraries_carry_the_real_sonames_and_bind_inside(library: str) -> None:
    dynamic = subprocess.check_output(["readelf", "-d", str(OUT / "lib" / library)], text=True)
    assert f"soname: [{library}]" in dynamic
    assert "SYMBOLIC" in dynamic
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2"}  # the loader: thread-local storage
