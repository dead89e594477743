"""Cgroups and the service manager's socket."""

import os
import pathlib
import socket

import pytest

from gpustack.adapters.cgroup import HIDDEN, container_of, processes_beside
from gpustack.adapters.systemd import Notifier, watchdog_seconds

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "line",
    [
        f"4:memory:/kubepods/burstable/pod11111111-2222-3333-4444-555555555555/{ID}",
        f"0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{ID}.scope",
        f"0::/kubepods.slice/kubepods-pod1_2.slice/crio-{ID}.scope/nested",
        f"1:name=systemd:/docker/{ID}",
    ],
)
def test_a_process_is_traced_to_its_container(tmp_path: pathlib.Path, line: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(f"9:cpu:/\n{line}\n")
    assert container_of(7, proc=tmp_path) == ID


def test_a_process_of_the_host_and_one_that_ended_have_no_container(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/system.slice/ssh.service\n")
    assert container_of(7, proc=tmp_path) is None
    assert container_of(8, proc=tmp_path) is None


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\r0::/pod1/" + b"f" * 64, b"\x85\x0b"])
def test_a_cgroup_of_any_name_is_read(tmp_path: pathlib.Path, name: bytes) -> None:
    (tmp_path / "7").mkdir()
    line = b"0::/kubepods/pod1/" + ID.encode() + b"/" + name
    (tmp_path / "7" / "cgroup").write_bytes(b"9:cpu:/\n" + line + b"\n")
    assert container_of(7, proc=tmp_path) == ID


# The paths of each layout: containerd's internal/cri/server/podsandbox/helpers.go (getCgroupsPath:
# SLICE:cri-containerd:ID), CRI-O's internal/config/cgmgr (systemd_linux.go, and cgroupfs_linux.go
# with crio-conmon-ID), and runc's systemd cgroups, which make PREFIX-ID.scope of PREFIX:ID.
_POD = "pod11111111_2222_3333_4444_555555555555"
_SLICE = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{_POD}.slice"


@pytest.mark.parametrize(
    ("lines", "folder"),
    [
        (f"0::/{_SLICE}/crio-{ID}.scope", f"{_SLICE}/crio-{ID}.scope"),
        (f"0::/{_SLICE}/crio-{ID}.scope/container", f"{_SLICE}/crio-{ID}.scope"),
        (f"0::/{_SLICE}/cri-containerd-{ID}.scope", f"{_SLICE}/cri-containerd-{ID}.scope"),
        (f"0::/kubepods/burstable/{_POD}/{ID}", f"kubepods/burstable/{_POD}/{ID}"),
        (
            f"9:cpu,cpuacct:/{_SLICE}/crio-{ID}.scope\n4:memory:/{_SLICE}/crio-{ID}.scope\n0::/",
            f"memory/{_SLICE}/crio-{ID}.scope",
        ),
    ],
    ids=["crio v2", "crio v2 crun", "containerd v2", "cgroupfs v2", "crio v1 hybrid"],
)
def test_the_processes_of_a_container_are_found(
    tmp_path: pathlib.Path, lines: str, folder: str
) -> None:
    proc, own = tmp_path / "proc", tmp_path / "cgroup" / folder
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "cgroup").write_text(lines + "\n")
    (own / "container" / "inner").mkdir(parents=True)
    (own.parent / f"crio-{'9' * 64}.scope").mkdir()
    (own.parent / f"crio-{'9' * 64}.scope" / "cgroup.procs").write_text("99\n")
    (own / "cgroup.procs").write_text("7\n8\n")
    (own / "container" / "inner" / "cgroup.procs").write_text("12\n")
    assert container_of(7, proc=proc) == ID
    found = processes_beside(7, proc=proc, cgroups=tmp_path / "cgroup")
    assert found == {7, 8, 12}


@pytest.mark.parametrize(
    "line",
    [
        f"0::/{_SLICE}/crio-conmon-{ID}.scope",  # conmon_cgroup = "pod"
        f"0::/system.slice/crio-conmon-{ID}.scope",  # its default
        f"0::/kubepods/burstable/{_POD}/crio-conmon-{ID}",  # with the cgroupfs driver
        "0::/system.slice/crio.service",
        "0::/",
    ],
)
def test_the_monitor_of_a_container_is_a_process_of_the_host(
    tmp_path: pathlib.Path, line: str
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(line + "\n")
    assert container_of(7, proc=tmp_path) is None
    assert processes_beside(7, proc=tmp_path, cgroups=tmp_path) == frozenset()


def test_a_status_sets_nothing_but_the_status() -> None:
    name = f"gpustack-test-status-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        Notifier("@" + name).status("away: pods\nMAINPID=1")
        assert listener.recv(100) == b"STATUS=away: pods\\nMAINPID=1"


def test_an_abstract_socket_of_the_service_manager_is_reached() -> None:
    name = f"gpustack-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        Notifier("@" + name).ready("2 cards")
        assert listener.recv(100) == b"READY=1\nSTATUS=2 cards"


def test_the_watchdog_of_another_process_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    assert watchdog_seconds() == 30
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert watchdog_seconds() == 0


def test_a_cgroup_that_cannot_be_read_is_not_taken_for_the_hosts(tmp_path: pathlib.Path) -> None:
    (tmp_path / "7" / "cgroup").mkdir(parents=True)  # as a path that is longer than a page
    assert container_of(7, proc=tmp_path) == HIDDEN
    assert processes_beside(7, proc=tmp_path) == frozenset()


AT_ROOT = "4:memory:/\n0::/\n"


def write_threads(proc: pathlib.Path, cgroups: list[str], *, ended: int) -> None:
    """Make a process with these cgroups of its threads, of which some have ended, as v1 has it."""
    for number, text in enumerate(cgroups):
        thread = proc / "7" / "task" / str(7 + number)
        thread.mkdir(parents=True)
        flags = 0x40800C if number < ended else 0x400040  # field 9, as Linux 6.18 has it
        (thread / "stat").write_text(f"7 (a ) b) R 1 2 3 4 5 {flags} 6 7\n")
        (thread / "cgroup").write_text(text)
    (proc / "7" / "cgroup").write_text(cgroups[0])


def test_a_process_whose_main_thread_ended_is_traced_by_another(tmp_path: pathlib.Path) -> None:
    proc, own = tmp_path / "proc", tmp_path / "cgroup" / "memory" / "pod1" / ID
    write_threads(proc, [AT_ROOT, f"4:memory:/pod1/{ID}\n0::/\n"], ended=1)
    own.mkdir(parents=True)
    (own / "cgroup.procs").write_text("7\n8\n")
    assert container_of(7, proc=proc) == ID
    assert processes_beside(7, proc=proc, cgroups=tmp_path / "cgroup") == {7, 8}


def test_many_ended_threads_are_not_taken_for_the_hosts(tmp_path: pathlib.Path) -> None:
    """A tracer keeps them listed: the living one behind them is not looked for."""
    write_threads(tmp_path, [AT_ROOT] * 9, ended=9)
    assert container_of(7, proc=tmp_path) == HIDDEN


@pytest.mark.parametrize("ended", [0, 1])
def test_a_living_thread_of_the_host_is_believed(tmp_path: pathlib.Path, ended: int) -> None:
    own = "4:memory:/\n0::/system.slice/x.service\n"
    write_threads(tmp_path, [AT_ROOT] * ended + [own] * 20, ended=ended)
    assert container_of(7, proc=tmp_path) is None
