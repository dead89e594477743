"""Files that a power cut, a full disk or an operator damaged are made anew, or named."""

import itertools
import os
import pathlib
import shutil
import struct
from collections.abc import Callable
from typing import Any

import pytest

from gpustack.adapters import mapped
from gpustack.adapters.checkpoint import CheckpointFile
from gpustack.wire.mapped.two_slot_page import LayoutError
from tests.agent.host import CORE, KEYS, Host, Pod
from tests.fakes.kubelet import AdmissionError

_READ: dict[str, Callable[[pathlib.Path], Any]] = {
    "limits": mapped.read_limits,
    "activity": mapped.read_activity,
    "ledger": mapped.read_ledger,
}


def _zero(path: pathlib.Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _cut(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def _empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


def _foreign(path: pathlib.Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def _other_version(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 8, 99)  # after the magic: vcuda_layout.h
    path.write_bytes(data)


def _folder(path: pathlib.Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").touch()


def _fifo(path: pathlib.Path) -> None:
    path.unlink()
    os.mkfifo(path)


_DAMAGES = (_zero, _cut, _empty, _foreign, _folder)


def _uid(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


@pytest.mark.parametrize(
    ("name", "damage"),
    # The ledger's word is its tenant's; another layout of the others is a newer agent's.
    [*itertools.product(_READ, _DAMAGES), ("ledger", _other_version)],
)
def test_a_damaged_file_is_made_anew_when_its_container_starts(
    host: Host, name: str, damage: Callable[[pathlib.Path], None]
) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    limits = mapped.read_limits(host.folder(pod, "c0") / "limits")
    file = host.folder(pod, "c0") / name
    damage(file)
    with pytest.raises((LayoutError, OSError)):
        _READ[name](file)
    host.kubelet.start_container(pod, "c0", CORE)
    _READ[name](file)
    assert mapped.read_limits(host.folder(pod, "c0") / "limits") == limits


def test_damaged_limits_of_a_container_that_runs_are_named(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    running = host.cri.run(_uid(pod), "c0")
    limits = host.folder(pod, "c0") / "limits"
    _zero(limits)
    before = limits.stat().st_ino
    with pytest.raises(AdmissionError, match=rf"LimitsNotWritten: {limits}: .*anew once nothing"):
        host.kubelet.start_container(pod, "c0", CORE)
    assert limits.stat().st_ino == before, "the running container has mapped that file"
    host.cri.exit(running)
    host.kubelet.start_container(pod, "c0", CORE)


def test_a_file_in_place_of_the_folder_is_named(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    folder = host.folder(pod, "c0")
    shutil.rmtree(folder)
    folder.touch()
    with pytest.raises(AdmissionError, match=f"LimitsNotWritten: {folder}: .*File exists"):
        host.kubelet.start_container(pod, "c0", CORE)


def test_limits_are_made_anew_only_while_the_runtime_answers(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    _zero(host.folder(pod, "c0") / "limits")
    host.cri.stop()
    with pytest.raises(AdmissionError, match="LimitsNotWritten"):
        host.kubelet.start_container(pod, "c0", CORE)


@pytest.mark.parametrize("name", ["activity", "ledger"])
def test_a_tenant_that_damages_its_ledger_gets_its_new_ceiling(host: Host, name: str) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    host.cri.run(_uid(pod), "c0")
    _zero(host.folder(pod, "c0") / name)
    host.api.edit("pods", "p", {"metadata": {"annotations": {KEYS.core_limit: "90"}}})
    limits = host.folder(pod, "c0") / "limits"
    host.wait_until(lambda: mapped.read_limits(limits).devices[0].burst_percent == 90)
    with pytest.raises(LayoutError):
        _READ[name](host.folder(pod, "c0") / name)


def test_the_folder_of_all_containers_is_made_again(host: Host) -> None:
    host.start_agent()
    shutil.rmtree(host.state / "containers")
    host.agent.recovery.free_ended()
    host.kubelet.admit(host.share())
    assert (host.state / "containers").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [_zero, _cut, _empty, _foreign, _folder, _fifo])
def test_an_agent_starts_with_a_damaged_checkpoint(
    host: Host, damage: Callable[[pathlib.Path], None]
) -> None:
    for _ in range(2):  # the second round meets the first one's copy
        host.start_agent()
        host.stop_agent()
        damage(host.state / "checkpoint.json")
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    assert [record.uid for record in host.agent.records.all()] == [_uid(pod)]


@pytest.mark.parametrize("kept", ["nothing", "file", "folder"])
@pytest.mark.parametrize("broken", ["file", "folder"])
def test_a_broken_checkpoint_is_set_aside_in_place_of_any_earlier_one(
    tmp_path: pathlib.Path, kept: str, broken: str
) -> None:
    file = CheckpointFile(tmp_path / "c.json")
    for path, what in ((file.path, broken), (tmp_path / "c.json.broken", kept)):
        if what == "folder":
            path.mkdir()
            (path / "x").touch()
        elif what == "file":
            path.write_text("{")
    aside = file.set_aside("broken")
    assert aside == tmp_path / "c.json.broken"
    assert aside.is_dir() == (broken == "folder")
    assert file.read() == {}
