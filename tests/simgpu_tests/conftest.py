"""Builds the simulated driver once, and gives each test a machine of its own."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.simgpu_tests.machine import SOURCE, Machine, first_line
from tests.simgpu_tests.pynvml_process import Nvml


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """The libraries, the tools and the test programs are up to date."""
    subprocess.run(["make", "-s", "-C", str(SOURCE), "tests"], check=True)


@pytest.fixture
def bare_machine(tmp_path: Path) -> Machine:
    """A machine before its driver is loaded."""
    return Machine(folder=tmp_path)


@pytest.fixture
def machine(bare_machine: Machine) -> Machine:
    """A machine with the two default cards."""
    bare_machine.start(0, 1)
    return bare_machine


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def client(machine: Machine) -> Iterator[Start]:
    """Starts CUDA processes, waits for their part, and ends them after the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(*args: str, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        process = machine.open("tests/client", *args, prefix=prefix)
        processes.append(process)
        assert first_line(process) == "ready"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def nvml(machine: Machine) -> Iterator[Nvml]:
    """A process that asks the machine's NVML through pynvml, unmodified."""
    with Nvml(machine) as session:
        yield session
