"""Open files that systemd keeps for the next start of a service."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

from gpustack.adapters import systemd
from gpustack.adapters.systemd import DescriptorStore
from tests.fakes.service_manager import FakeServiceManager

# Prints the names of the received files, what a child sees of them, and of their variables.
_SERVICE = """
import os, subprocess
from gpustack.adapters.systemd import DescriptorStore
store = DescriptorStore.from_environment()
print([os.path.basename(os.readlink(f"/proc/self/fd/{each}")) for each in store.received])
seen = "ls -l /proc/self/fd | grep -c stored_; env | grep -c LISTEN_"
print(subprocess.run(seen, shell=True, capture_output=True, close_fds=False).stdout.split())
"""


def _start(folder: pathlib.Path, *, pid: str) -> list[str]:
    """Start a service as systemd does, with two stored files; return the lines that it prints."""
    for name in ("stored_a", "stored_b"):
        (folder / name).touch()
    shell = (
        f"exec 3<>{folder}/stored_a 4<>{folder}/stored_b; export LISTEN_PID={pid} LISTEN_FDS=2"
        f' LISTEN_FDNAMES=x:y; exec {sys.executable} -c "$0"'
    )
    done = subprocess.check_output(
        ["sh", "-c", shell, _SERVICE], text=True, env=dict(os.environ, PYTHONPATH=os.getcwd())
    )
    return done.splitlines()


def test_a_service_gets_its_files_again_and_its_children_do_not(tmp_path: pathlib.Path) -> None:
    assert _start(tmp_path, pid="$$") == ["['stored_a', 'stored_b']", "[b'0', b'0']"]


def test_the_files_of_another_process_are_left_alone(tmp_path: pathlib.Path) -> None:
    assert _start(tmp_path, pid="1")[0] == "[]"


def test_a_stored_file_is_open_until_it_is_removed(tmp_path: pathlib.Path) -> None:
    with FakeServiceManager(tmp_path / "notify") as manager:
        store = manager.start_service()
        with (tmp_path / "file").open("w") as file:
            store.add("8-1f", file.fileno())
        assert manager.wait_for(1) == {"8-1f"}
        (received,) = manager.start_service().received
        assert os.readlink(f"/proc/self/fd/{received}") == str(tmp_path / "file")
        os.close(received)
        store.remove("8-1f")
        assert manager.wait_for(0) == set()


def test_a_service_without_a_manager_stores_nothing() -> None:
    store = DescriptorStore()
    store.add("8-1f", 0)
    store.remove("8-1f")
    assert store.received == ()


def test_a_manager_that_does_not_read_stops_no_service(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "_STORE_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
        silent.bind(str(tmp_path / "notify"))
        store = DescriptorStore(str(tmp_path / "notify"))

        def fill() -> None:
            for _ in range(10_000):
                store.remove("8-1f")

        with pytest.raises(TimeoutError):
            fill()
