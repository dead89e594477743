"""What the kernel shows of real processes."""

import fcntl
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from gpustack.adapters import memory_maps

_BREAK_SECONDS = int(pathlib.Path("/proc/sys/fs/lease-break-time").read_text())
_HEADLESS = """
import ctypes, mmap, sys, threading, time
file = open(sys.argv[1], "rb")
view = mmap.mmap(file.fileno(), 1, prot=mmap.PROT_READ)
threading.Thread(target=lambda: (print("up", flush=True), sys.stdin.read())).start()
if sys.argv[2] == "ends":
    ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "limits"
    path.write_bytes(b"limits")
    return path


@pytest.mark.parametrize("main_thread", ["stays", "ends"])
def test_the_files_of_a_process_are_those_that_we_see(file: pathlib.Path, main_thread: str) -> None:
    """The kernel shows no maps for the PID of a process whose first thread has ended."""
    command = [sys.executable, "-c", _HEADLESS, str(file), main_thread]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        while main_thread == "ends" and pathlib.Path(f"/proc/{process.pid}/maps").read_bytes():
            assert process.poll() is None
        found = memory_maps.of_process(process.pid, ("limits", "ledger"))
        own = memory_maps.of_file(file)
        assert own is not None
        assert found == frozenset((own,))
        process.kill()
    assert memory_maps.of_process(process.pid, ("limits",)) is None


@pytest.mark.parametrize("ended", [8, 2000])
def test_threads_that_a_tracer_keeps_do_not_hide_a_process(
    tmp_path: pathlib.Path, ended: int
) -> None:
    """The kernel lists them before the one that has started last, and shows no maps for them."""
    folder = tmp_path / "7"
    for number in range(ended):
        (folder / "task" / str(number)).mkdir(parents=True)
        (folder / "task" / str(number) / "maps").touch()
    (folder / "maps").touch()
    (folder / "task" / "last").mkdir()
    (folder / "task" / "last" / "maps").write_text("0-1 r--p 0 00:01 2 /bin/true\n")
    assert memory_maps.of_process(7, ("limits",), proc=tmp_path) == frozenset()


def test_a_file_is_found_among_others_of_its_name(tmp_path: pathlib.Path) -> None:
    paths = [tmp_path / name / "limits" for name in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(b"limits")
    with paths[1].open("rb") as other, mmap.mmap(other.fileno(), 1, prot=mmap.PROT_READ):
        found = memory_maps.of_file(paths[0])
    assert found is not None
    assert found[1:] == (os.stat(paths[0]).st_ino, "limits")


def test_a_file_behind_a_symbolic_link_is_found(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    found = memory_maps.of_file(tmp_path / "link" / "limits")
    assert found is not None
    assert found == memory_maps.of_file(file)


def test_a_file_that_is_empty_or_not_there_is_mapped_by_nobody(tmp_path: pathlib.Path) -> None:
    (tmp_path / "limits").touch()
    assert memory_maps.of_file(tmp_path / "limits") is None
    assert memory_maps.of_file(tmp_path / "other") is None


@pytest.fixture
def leased(file: pathlib.Path) -> Iterator[pathlib.Path]:
    """Give a file on which a tenant's root holds a lease, and doesn't give it back."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        pytest.skip(f"this host gives no leases: {error}")
    yield file
    os.close(descriptor)
    signal.signal(signal.SIGIO, before)


def test_no_look_waits_for_the_end_of_a_lease(leased: pathlib.Path) -> None:
    began = time.monotonic()
    assert memory_maps.of_file(leased) is None
    assert time.monotonic() - began < _BREAK_SECONDS
