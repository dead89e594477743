"""cuGetProcAddress by the rules measured on driver 535."""

import pytest

from tests.simgpu_tests.machine import Machine

FOUND, INVALID, MISSING = 0, 1, 500
UNKNOWN, TOO_LOW = 1, 2

# name, version, flags -> the symbol that answers
VARIANTS = [
    ("cuMemAlloc", 2000, 0, "cuMemAlloc"),
    ("cuMemAlloc", 3019, 0, "cuMemAlloc"),
    ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"),
    ("cuMemAlloc", 12021, 0, "cuMemAlloc_v2"),
    ("cuMemAlloc", -1, 0, "cuMemAlloc_v2"),
    ("cuMemAlloc", 99000, 0, "cuMemAlloc_v2"),
    ("cuMemAlloc", 12020, 2, "cuMemAlloc_v2"),
    ("cuCtxCreate", 2000, 0, "cuCtxCreate"),
    ("cuCtxCreate", 3020, 0, "cuCtxCreate_v2"),
    ("cuCtxCreate", 11040, 1, "cuCtxCreate_v3"),
    ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
    ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
    ("cuLaunchKernel", 4000, 0, "cuLaunchKernel"),
    ("cuLaunchKernel", 7000, 1, "cuLaunchKernel"),
    ("cuLaunchKernel", 7000, 2, "cuLaunchKernel_ptsz"),
    ("cuLaunchKernelEx", 11060, 3, "cuLaunchKernelEx_ptsz"),
    ("cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"),
    ("cuMemcpyHtoD", 7000, 0, "cuMemcpyHtoD_v2"),
    ("cuMemHostRegister", 6000, 0, "cuMemHostRegister"),
    ("cuMemHostRegister", 6050, 0, "cuMemHostRegister_v2"),
]


def ask(machine: Machine, name: str, version: int, flags: int) -> list[str]:
    text = f"{name or '-'} {version} {flags}\n"
    return machine.run("tests/resolve", text=text).stdout.split()


@pytest.mark.parametrize(("name", "version", "flags", "symbol"), VARIANTS)
def test_the_newest_variant_that_the_version_knows_answers(
    bare_machine: Machine, name: str, version: int, flags: int, symbol: str
) -> None:
    answer = ask(bare_machine, name, version, flags)
    assert answer == [str(FOUND), symbol, str(FOUND), "0", symbol]


@pytest.mark.parametrize("name", ["cuMemAlloc_v2", "cuLaunchKernel_ptsz", "cuNothing", ""])
def test_unknown_names_are_not_found(bare_machine: Machine, name: str) -> None:
    answer = ask(bare_machine, name, 12020, 0)
    assert answer == [str(MISSING), "kept", str(FOUND), str(UNKNOWN), "null"]


@pytest.mark.parametrize(
    ("name", "version", "flags"),
    [("cuMemAllocAsync", 11010, 0), ("cuLaunchKernel", 4000, 2), ("cuMemcpyHtoD", 6050, 2)],
)
def test_a_version_too_low_has_a_status_of_its_own(
    bare_machine: Machine, name: str, version: int, flags: int
) -> None:
    answer = ask(bare_machine, name, version, flags)
    assert answer == [str(MISSING), "kept", str(FOUND), str(TOO_LOW), "null"]


@pytest.mark.parametrize("flags", [4, 5, 1 << 40])
def test_other_flag_bits_are_invalid_and_touch_nothing(bare_machine: Machine, flags: int) -> None:
    answer = ask(bare_machine, "cuInit", 12020, flags)
    assert answer == [str(INVALID), "kept", str(INVALID), "9", "kept"]
