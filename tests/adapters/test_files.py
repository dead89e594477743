"""Checkpoint, cgroups and the service manager's socket."""

import json
import os
import pathlib
import socket

import pytest

from gpustack.adapters.cgroup import container_of
from gpustack.adapters.checkpoint import CheckpointError, CheckpointFile
from gpustack.adapters.systemd import Notifier, watchdog_seconds

ID = "0123456789abcdef" * 4


def test_a_checkpoint_reads_back_what_was_written(tmp_path: pathlib.Path) -> None:
    file = CheckpointFile(tmp_path / "c.json", version=1)
    assert file.read() is None
    file.write({"a": [1, "é"]})
    assert file.read() == {"a": [1, "é"]}
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.json"]


@pytest.mark.parametrize("damage", ["cut", "edit", "version", "other"])
def test_a_damaged_checkpoint_is_an_error_and_never_empty(
    tmp_path: pathlib.Path, damage: str
) -> None:
    path = tmp_path / "c.json"
    file = CheckpointFile(path, version=1)
    file.write({"a": 1})
    document = json.loads(path.read_text())
    text = {
        "cut": path.read_text()[:-5],
        "edit": json.dumps({**document, "data": {"a": 2}}),
        "version": json.dumps({**document, "version": 2}),
        "other": "[]",
    }[damage]
    path.write_text(text)
    with pytest.raises(CheckpointError, match=str(path)):
        file.read()
    assert file.set_aside().read_text() == text
    assert file.read() is None


def test_a_checkpoint_that_can_not_be_written_leaves_the_old_one(tmp_path: pathlib.Path) -> None:
    file = CheckpointFile(tmp_path / "gone" / "c.json", version=1)
    with pytest.raises(CheckpointError, match="gone"):
        file.write({})


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
