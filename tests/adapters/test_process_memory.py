"""A process that ends has lost its memory, before the driver has freed what it held."""

import os
import pathlib
import subprocess
import sys

import pytest

from gpustack.adapters import process

# Its main thread ends, and another one goes on.
HEADLESS = """
import ctypes, sys, threading
def wait():
    print("up", flush=True)
    sys.stdin.read()
    print("read", flush=True)
threading.Thread(target=wait).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_a_living_process_has_memory() -> None:
    assert process.has_memory(os.getpid())


def test_a_process_that_has_ended_has_none() -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays, without memory
        assert not process.has_memory(child.pid)
    assert not process.has_memory(child.pid)


def test_a_process_that_ends_while_its_threads_are_listed_has_none(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    with subprocess.Popen(["sleep", "60"]) as child:
        threads = os.open(f"/proc/{child.pid}/task", os.O_RDONLY)
        child.kill()
    (folder / "task").symlink_to(f"/proc/self/fd/{threads}")  # a folder still, without a list
    assert not process.has_memory(7, proc=tmp_path)
    os.close(threads)


@pytest.mark.parametrize(("count", "has_memory"), [(8, False), (9, True), (100, True)])
def test_threads_that_a_tracer_keeps_are_not_all_asked(
    tmp_path: pathlib.Path, count: int, *, has_memory: bool
) -> None:
    """One by one, tens of thousands of ended threads would keep all samples of a node waiting."""
    for number in range(count):
        thread = tmp_path / "7" / "task" / str(number)
        thread.mkdir(parents=True)
        (thread / "statm").write_bytes(b"0 0 0 0 0 0 0\n")
    assert process.has_memory(7, proc=tmp_path) is has_memory


def test_a_process_whose_main_thread_has_ended_has_memory() -> None:
    command = [sys.executable, "-c", HEADLESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        while pathlib.Path(f"/proc/{child.pid}/statm").read_bytes().split()[0] != b"0":
            pass
        assert process.has_memory(child.pid)
        child.kill()
