"""Faults that a test injects into the simulated driver."""

import pytest

from tests.simgpu_tests.machine import Machine

OUT_OF_MEMORY = "2"


def tries(machine: Machine, count: int = 5) -> list[str]:
    """The results of so many allocations."""
    return machine.run("tests/client", "0", "tries", str(count)).stdout.split()


@pytest.mark.parametrize(
    ("words", "failed"),
    [
        ("result=2", [1]),
        ("result=2 nth=3", [3]),
        ("result=2 nth=2 count=2", [2, 3]),
        ("result=2 nth=4 count=0", [4, 5]),
    ],
)
@pytest.mark.parametrize("way", ["environment", "machine"])
def test_the_calls_that_were_named_fail(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, words: str, failed: list[int], way: str
) -> None:
    if way == "environment":
        monkeypatch.setenv("SIMGPU_FAULTS", f"cuMemAlloc_v2 {words}; cuMemFree* result=1")
    else:
        machine.run("bin/simgpu", "fault", f"cuMemAlloc_v2 {words}")
    expected = [OUT_OF_MEMORY if call in failed else "0" for call in range(1, 6)]
    assert tries(machine) == expected


def test_faults_are_cleared(machine: Machine) -> None:
    machine.run("bin/simgpu", "fault", "cuMem* result=2 count=0")
    assert set(tries(machine)) == {OUT_OF_MEMORY}
    machine.run("bin/simgpu", "fault", "clear")
    assert set(tries(machine)) == {"0"}


def test_launches_fail_by_any_of_their_names(machine: Machine) -> None:
    machine.run("bin/simgpu", "fault", "cuLaunch* result=719")
    done = machine.run("tests/client", "0", "queue", "1", status=1)
    assert "answered 719" in done.stderr


def test_a_call_is_slow(machine: Machine) -> None:
    """Five waits of 40 ms make a spin of 0.1 s last longer than its own time."""
    machine.run("bin/simgpu", "fault", "cuLaunchKernel delay_us=40000 count=0")
    assert int(machine.run("tests/client", "0", "spin", "10", "0.1").stdout) <= 3


def test_a_missing_symbol_is_not_found(machine: Machine) -> None:
    machine.run("bin/simgpu", "fault", "cuMemAllocAsync* missing")
    asked = "cuMemAllocAsync 12020 0\ncuMemAllocAsync 12020 2\ncuMemAlloc 12020 0\n"
    lines = machine.run("tests/resolve", text=asked).stdout.splitlines()
    assert [line.split()[-2:] for line in lines] == [
        ["1", "null"],
        ["1", "null"],
        ["0", "cuMemAlloc_v2"],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cuMemAlloc_v2 result=many", "result=many: not one of"),
        ("cuMemAlloc_v2 nth=0", "nth=0: not one of"),
        ("memAlloc result=2", "memAlloc: not a symbol of libcuda"),
        ("", "not a symbol of libcuda"),
    ],
)
def test_a_wrong_fault_is_refused_by_its_word(machine: Machine, text: str, message: str) -> None:
    assert message in machine.run("bin/simgpu", "fault", text, status=2).stderr
