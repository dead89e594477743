"""Memory of every family is seen by NVML, and goes with its process."""

import random
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.simgpu_tests.machine import Machine, first_line
from tests.simgpu_tests.pynvml_process import Nvml

MIB = 1 << 20
CONTEXT_BYTES = 64 * MIB
HOLD_BYTES = 64 * MIB
FAMILIES = [
    "allocation",
    "array",
    "mipmap",
    "handle",
    "shareable",
    "descriptor",
    "mapping",
    "pool",
    "reserve",
    "external",
    "heap",
]

Hold = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def hold(machine: Machine) -> Iterator[Hold]:
    """Starts a process that holds memory; gives it and the line that it printed."""
    processes: list[subprocess.Popen[str]] = []

    def start(*args: str) -> tuple["subprocess.Popen[str]", str]:
        process = machine.open("tests/holder", "0", *args)
        processes.append(process)
        return process, first_line(process)

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def session(nvml: Nvml) -> Nvml:
    nvml.ask("nvmlInit")
    return nvml


def used_bytes(session: Nvml) -> int:
    return int(session.ask("nvmlDeviceGetMemoryInfo", {"card": 0})["used"])


def bytes_by_pid(session: Nvml) -> dict[int, int]:
    found = session.ask("nvmlDeviceGetComputeRunningProcesses", {"card": 0})
    return {process["pid"]: process["usedGpuMemory"] for process in found}


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()


def close_descriptor(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert first_line(process) == "closed"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_killed_process_gives_back_what_it_held(hold: Hold, session: Nvml, family: str) -> None:
    process, line = hold(family)
    assert line == "ready"
    held = CONTEXT_BYTES + HOLD_BYTES
    assert used_bytes(session) == held
    if family != "descriptor":  # then the descriptor holds the memory, and no process does
        assert bytes_by_pid(session) == {process.pid: held}
    end(process)
    assert used_bytes(session) == 0


def test_shared_memory_counts_once_and_for_its_owner(hold: Hold, session: Nvml) -> None:
    owner, handle = hold("export")
    opener, _ = hold("open", handle)
    both = {owner.pid: CONTEXT_BYTES + HOLD_BYTES, opener.pid: CONTEXT_BYTES}
    assert bytes_by_pid(session) == both
    assert used_bytes(session) == 2 * CONTEXT_BYTES + HOLD_BYTES
    end(opener)
    assert bytes_by_pid(session) == {owner.pid: CONTEXT_BYTES + HOLD_BYTES}


def test_shared_memory_outlives_its_owner_while_a_process_has_it_open(
    hold: Hold, session: Nvml
) -> None:
    owner, handle = hold("export")
    first, _ = hold("open", handle)
    second, _ = hold("open", handle)
    end(owner)
    assert used_bytes(session) == 2 * CONTEXT_BYTES + HOLD_BYTES
    # The resource manager hands it to the one that has opened it last.
    shown = {first.pid: CONTEXT_BYTES, second.pid: CONTEXT_BYTES + HOLD_BYTES}
    assert bytes_by_pid(session) == shown
    end(second)
    assert bytes_by_pid(session) == {first.pid: CONTEXT_BYTES + HOLD_BYTES}
    end(first)
    assert used_bytes(session) == 0


def test_an_open_descriptor_owns_memory_whose_maker_is_gone(
    machine: Machine, hold: Hold, session: Nvml
) -> None:
    socket = str(machine.folder / "memory")
    maker, _ = hold("send", socket)
    first, _ = hold("receive", socket)
    second, _ = hold("receive", socket)
    end(maker)
    # Both have kept the descriptor: its reference is the resource manager's own, of no process.
    assert used_bytes(session) == 2 * CONTEXT_BYTES + HOLD_BYTES
    assert bytes_by_pid(session) == {first.pid: CONTEXT_BYTES, second.pid: CONTEXT_BYTES}
    close_descriptor(first)
    assert bytes_by_pid(session) == {first.pid: CONTEXT_BYTES, second.pid: CONTEXT_BYTES}
    close_descriptor(second)
    shown = {first.pid: CONTEXT_BYTES, second.pid: CONTEXT_BYTES + HOLD_BYTES}
    assert bytes_by_pid(session) == shown


@pytest.mark.parametrize("seed", range(2))
def test_deaths_in_any_order_leave_the_memory_of_live_processes(
    machine: Machine, hold: Hold, session: Nvml, seed: int
) -> None:
    """Three owners, each opened by two others, die in a random order."""
    holders: dict[int, set[int]] = {}  # by owner: the living that hold its memory
    processes: dict[int, subprocess.Popen[str]] = {}
    for _ in range(3):
        owner, handle = hold("export")
        openers = [hold("open", handle)[0] for _ in range(2)]
        holders[owner.pid] = {owner.pid, *(opener.pid for opener in openers)}
        processes |= {process.pid: process for process in (owner, *openers)}
    order = list(processes)
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, not a secret
    for dead, pid in enumerate(order, start=1):
        end(processes[pid])
        for living in holders.values():
            living.discard(pid)
        shared = sum(HOLD_BYTES for living in holders.values() if living)
        assert used_bytes(session) == shared + (len(order) - dead) * CONTEXT_BYTES
    assert list((machine.folder / "lib").iterdir()) == [machine.folder / "lib" / "state"]


def test_a_process_killed_anywhere_leaves_nothing(
    machine: Machine, hold: Hold, session: Nvml
) -> None:
    """Memory that is being made or given back when its process dies is free afterwards."""
    keeper, handle = hold("export")
    for _ in range(10):
        end(hold("churn")[0])
    hold("open", handle)
    assert used_bytes(session) == 2 * CONTEXT_BYTES + HOLD_BYTES
    assert len(list((machine.folder / "lib").glob("state.memory-*"))) == 1
    assert bytes_by_pid(session)[keeper.pid] == CONTEXT_BYTES + HOLD_BYTES


def test_no_file_is_left_of_shared_memory(machine: Machine, hold: Hold) -> None:
    process, _ = hold("export")
    folder = machine.folder / "lib"
    assert len(list(folder.glob("state.memory-*"))) == 1
    end(process)
    machine.run("bin/simgpu", "show")
    assert list(folder.iterdir()) == [folder / "state"]


def test_a_reset_forgets_shared_memory(machine: Machine, hold: Hold, session: Nvml) -> None:
    process, _ = hold("export")
    end(process)
    machine.run("bin/simgpu", "reset")
    folder = machine.folder / "lib"
    assert list(folder.iterdir()) == [folder / "state"]
    assert used_bytes(session) == 0
