"""The CUDA driver API of one process: each check is a function in simgpu/tests/contract_*.c."""

import re
import subprocess

import pytest

from tests.simgpu_tests.machine import OUT, SOURCE, Machine

CHECKS = {
    path.stem: re.findall(r"CHECK\((\w+)\)", path.read_text())
    for path in sorted((SOURCE / "tests").glob("contract_*.c"))
}


@pytest.mark.parametrize(
    ("program", "check"), [(program, check) for program, all_ in CHECKS.items() for check in all_]
)
def test_cuda(machine: Machine, program: str, check: str) -> None:
    machine.run(f"tests/{program}", check)


@pytest.mark.parametrize("program", CHECKS)
def test_every_check_is_listed(machine: Machine, program: str) -> None:
    text = (SOURCE / "tests" / f"{program}.c").read_text()
    written = re.findall(r"^static void (\w+)\(void\) \{", text, flags=re.MULTILINE)
    assert written == CHECKS[program] == machine.run(f"tests/{program}").stdout.split()


def table_symbols(table: str, macros: dict[str, str]) -> set[str]:
    """The symbols of an entries.def; `macros` maps a macro to the suffix of its twin."""
    text = re.sub(r"/\*.*?\*/", "", (SOURCE / "src" / table).read_text(), flags=re.DOTALL)
    found = set()
    for macro, args in re.findall(r"^(\w+)\(([^(]*)\(", text, flags=re.MULTILINE):
        names = [name.strip() for name in args.split(",")]
        symbol = names[1] if len(names) > 2 else names[0]
        found |= {symbol} | ({symbol + macros[macro]} if macros[macro] else set())
    return found


def exported(library: str) -> set[str]:
    lines = subprocess.check_output(["nm", "-D", "--defined-only", str(OUT / "lib" / library)])
    return {line.split()[-1] for line in lines.decode().splitlines()}


def test_libcuda_exports_exactly_its_table() -> None:
    macros = {"API": "", "STREAM": "_ptsz", "DEFAULT": "_ptds"}
    assert exported("libcuda.so.1") == table_symbols("cuda/entries.def", macros)


def test_libnvidia_ml_exports_exactly_its_table() -> None:
    table = table_symbols("nvml/entries.def", {"NVML": ""})
    assert exported("libnvidia-ml.so.1") == table | {"nvmlErrorString"}


@pytest.mark.parametrize("library", ["libcuda.so.1", "libnvidia-ml.so.1"])
def test_libraries_carry_the_real_sonames_and_bind_inside(library: str) -> None:
    dynamic = subprocess.check_output(["readelf", "-d", str(OUT / "lib" / library)], text=True)
    assert f"soname: [{library}]" in dynamic
    assert "SYMBOLIC" in dynamic
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2"}  # the loader: thread-local storage
