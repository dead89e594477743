"""A GPU host knows its pods with cards and their builds of the hook by itself."""

import errno
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.ansible import layout
from tests.ansible.gpu_hosts.gpu_host import BUILD, DRIVER, OLDER, GpuHost

pytestmark = pytest.mark.long

MODULE = layout.ROOT / "roles/gpustack_hook/library/gpustack_users.py"
UID = "11111111-2222-3333-4444-555555555555"
SYSTEMD = (
    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
    f"{UID.replace('-', '_')}.slice/cri-containerd-0123.scope\n"
)
CGROUPFS = f"12:devices:/kubepods/burstable/pod{UID}/0123\n"


@pytest.fixture
def host(tmp_path: pathlib.Path) -> GpuHost:
    return GpuHost(tmp_path)


def _arguments(host: GpuHost) -> dict[str, Any]:
    return {
        "state_path": str(host.state),
        "kubelet_path": str(host.kubelet),
        "domain": "tencent.com",
        "pod_logs_path": str(host.logs),
        "proc_path": str(host.proc),
    }


def answer(host: GpuHost, *, settle_seconds: float = 0) -> dict[str, Any]:
    """Run the module as Ansible does, without Ansible around it."""
    arguments = {**_arguments(host), "settle_seconds": settle_seconds}
    done = subprocess.run(
        [sys.executable, str(MODULE)],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        check=False,
        capture_output=True,
        text=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def users(host: GpuHost) -> tuple[list[str], list[str]]:
    """Return pods and builds."""
    result = answer(host)
    return result["pods"], result["hooks"]


def test_users_of_a_host_without_pods_are_empty(host: GpuHost) -> None:
    host.run(1, ["/"])
    assert users(host) == ([], [])


def test_users_of_a_host_that_never_had_an_agent_are_empty(tmp_path: pathlib.Path) -> None:
    host = GpuHost(tmp_path)
    host.state = tmp_path / "never"
    host.kubelet = tmp_path / "nor"
    assert users(host) == ([], [])


def test_a_recorded_pod_that_the_kubelet_has_is_named(host: GpuHost) -> None:
    host.record(UID, "research", "notebook")
    assert users(host) == ([], [])
    host.keep(UID)
    assert users(host) == (["research/notebook"], [])


def test_a_pod_that_the_kubelet_is_just_removing_is_waited_for(host: GpuHost) -> None:
    host.record(UID, "research", "notebook")
    host.keep(UID)
    records = host.state / "checkpoint.json"
    text = records.read_text()
    records.unlink()
    os.mkfifo(records)  # opens when the module looks, and not before

    def remove() -> None:
        with records.open("w") as first:
            records.unlink()
            os.mkfifo(records)
            first.write(text)
        with records.open("w") as second:
            (host.kubelet / "pods" / UID).rmdir()
            second.write(text)

    # a daemon: a module that looks once leaves it waiting
    threading.Thread(target=remove, daemon=True).start()
    assert answer(host, settle_seconds=60)["pods"] == []
    assert not (host.kubelet / "pods" / UID).exists()


def test_a_pod_that_lives_is_not_waited_for(host: GpuHost) -> None:
    host.run(42, [f"{host.state}/driver/{DRIVER}"], cgroup=SYSTEMD)
    host.keep(UID, "research", "job-1")
    assert answer(host, settle_seconds=3600)["pods"] == ["research/job-1"]


def test_a_pod_that_only_the_kubelet_knows_is_named_by_its_logs(host: GpuHost) -> None:
    host.give(UID, BUILD)
    host.keep(UID, "research", "job-1")
    assert users(host) == (["research/job-1"], [BUILD])


def test_a_pod_of_another_device_plugin_is_left_out(host: GpuHost) -> None:
    host.give(UID, BUILD, resource="nvidia.com/gpu")
    host.keep(UID, "research", "job-1")
    assert users(host) == ([], [])


def test_a_container_between_two_starts_keeps_its_build(host: GpuHost) -> None:
    # The kubelet gives the container its first mounts again; no process has them now.
    host.give(UID, OLDER)
    host.keep(UID, "research", "job-1")
    assert users(host) == (["research/job-1"], [OLDER])


def test_a_pod_that_is_gone_keeps_no_build(host: GpuHost) -> None:
    host.give(UID, OLDER)
    assert users(host) == ([], [])


@pytest.mark.parametrize("cgroup", [SYSTEMD, CGROUPFS])
@pytest.mark.parametrize(
    ("folder", "builds"),
    [
        (f"hooks/{OLDER}", [OLDER]),
        (f"hooks/{OLDER}/ld.so.preload", [OLDER]),
        (f"driver/{DRIVER}", []),
    ],
)
def test_a_living_container_is_found_by_its_mounts(
    host: GpuHost, cgroup: str, folder: str, builds: list[str]
) -> None:
    host.run(42, [f"{host.state}/{folder}"], cgroup=cgroup)
    host.keep(UID, "research", "job-1")
    assert users(host) == (["research/job-1"], builds)


# A disk of its own, a subvolume, and a folder of another disk that is bound there.
@pytest.mark.parametrize("root", ["/", "/@var/lib/gpustack", r"/a\040b"])
def test_a_state_folder_that_is_a_mount_is_found(host: GpuHost, root: str) -> None:
    host.mount(("8:1", "/", "/"), ("8:1", "/old", str(host.state)), ("9:2", root, str(host.state)))
    host.run(42, [os.path.join(root, f"hooks/{OLDER}")], device="9:2")
    assert users(host) == (["process 42 (python3)"], [OLDER])


def test_a_state_folder_behind_a_link_is_found(host: GpuHost) -> None:
    moved = host.state.rename(host.state.with_name("moved"))
    host.state.symlink_to(moved)
    host.run(42, [f"{moved}/hooks/{OLDER}"])
    assert users(host) == (["process 42 (python3)"], [OLDER])


@pytest.mark.parametrize(
    ("volume", "device"),
    [
        ("/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/hooks", "8:1"),
        ("/hooks", "0:99"),
        ("{state}/hooks", "0:99"),  # a tmpfs of the tenant's own
    ],
)
def test_a_volume_with_the_name_of_a_build_is_not_ours(
    host: GpuHost, volume: str, device: str
) -> None:
    host.run(42, [f"{volume.format(state=host.state)}/{BUILD}"], cgroup=SYSTEMD, device=device)
    assert users(host) == ([], [])


# A user's mountPath may have any of these, and the kernel shows them as they are.
@pytest.mark.parametrize("character", ["\r", "\f", "\x1e", "\u2028"])
def test_a_mount_point_has_any_character_but_a_line_feed(host: GpuHost, character: str) -> None:
    host.run(42, [f"{host.state}/hooks/{BUILD}"], cgroup=SYSTEMD)
    with (host.proc / "42" / "mountinfo").open("a", encoding="utf-8", newline="\n") as file:
        file.write(f"30 20 0:5 / /a{character}b{character}c ro - tmpfs none rw\n")
    host.keep(UID, "research", "job-1")
    assert users(host) == (["research/job-1"], [BUILD])


def test_a_process_with_a_root_of_its_own_hides_no_other(host: GpuHost) -> None:
    host.run(40, [], root="/empty")
    host.run(42, [f"{host.state}/hooks/{BUILD}"])
    assert users(host) == (["process 42 (python3)"], [BUILD])


# EACCES: in a container root may read no namespace of the host's first process. ENAMETOOLONG: a
# process of any container has made its root deeper than a path may be.
@pytest.mark.parametrize("number", [errno.EACCES, errno.ENAMETOOLONG])
def test_a_process_that_hides_its_namespace_is_asked_for_its_mounts(
    host: GpuHost, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    host.run(40, [])
    host.run(42, [f"{host.state}/hooks/{BUILD}"])
    module = runpy.run_path(str(MODULE))

    def refuse(path: str) -> str:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "readlink", refuse)
    assert module["Users"](_arguments(host)).pods == ["process 42 (python3)"]


def test_a_process_without_a_pod_is_told_by_its_number(host: GpuHost) -> None:
    host.run(42, [f"{host.state}/hooks/{BUILD}"])
    assert users(host) == (["process 42 (python3)"], [BUILD])


def test_a_process_whose_cgroup_cannot_be_read_is_told_by_its_number(host: GpuHost) -> None:
    host.run(42, [f"{host.state}/hooks/{BUILD}"])
    (host.proc / "42" / "cgroup").unlink()
    (host.proc / "42" / "cgroup").mkdir()  # as a path that is longer than the kernel tells
    assert users(host) == (["process 42 (python3)"], [BUILD])


def test_containers_of_other_programs_are_left_out(host: GpuHost) -> None:
    host.run(42, ["/var/lib/docker/containers/0123/hosts", "/var/lib/other/hooks/post"])
    assert users(host) == ([], [])


def test_a_process_that_has_ended_is_passed_over(host: GpuHost) -> None:
    (host.proc / "43").mkdir()
    assert users(host) == ([], [])


def test_a_process_that_ends_meanwhile_hides_no_other(host: GpuHost) -> None:
    for pid in (40, 42):
        host.run(pid, [f"{host.state}/hooks/{BUILD}"])
    first, second = filter(str.isdigit, os.listdir(host.proc))  # as the module comes to them
    (host.proc / first / "mountinfo").unlink()
    assert users(host) == ([f"process {second} (python3)"], [BUILD])


def test_the_records_of_an_earlier_agent_are_read(host: GpuHost) -> None:
    earlier = layout.ROOT / "tests/data/checkpoint/version-1.json"
    shutil.copy(earlier, host.state / "checkpoint.json")
    host.keep(UID)
    assert users(host) == (["research/notebook"], [])


@pytest.mark.parametrize("torn", ["0123", "00000000 {}\n", "\0" * 40])
def test_a_record_that_a_crash_tore_is_passed_over(host: GpuHost, torn: str) -> None:
    host.record(UID, "research", "notebook")
    host.keep(UID)
    with (host.state / "checkpoint.json").open("a", encoding="utf-8") as file:
        file.write(torn)
    assert users(host) == (["research/notebook"], [])


def test_a_removed_record_is_gone(host: GpuHost) -> None:
    host.record(UID, "research", "notebook")
    host.record("other", "research", "other")
    host.forget(UID)
    host.keep(UID)
    assert users(host) == ([], [])


@pytest.mark.parametrize("damage", ["version", "line"])
def test_records_with_a_broken_line_are_an_error(host: GpuHost, damage: str) -> None:
    for number in range(3):
        host.record(f"{UID}{number}", "research", "notebook")
    file = host.state / "checkpoint.json"
    text = file.read_text()
    old, new = {"version": ('"version": 2', '"version": 3'), "line": (f"{UID}1", f"{UID}7")}[damage]
    assert old in text
    file.write_text(text.replace(old, new))
    result = answer(host)
    assert result["failed"]
    assert f"{file}: not the records of an agent that this role knows" in result["msg"]


@pytest.mark.parametrize("text", ["{", "[]", '{"data": {"pods": [{}]}}'])
def test_records_that_cannot_be_read_are_an_error(host: GpuHost, text: str) -> None:
    (host.state / "checkpoint.json").write_text(text)
    result = answer(host)
    assert result["failed"]
    assert f"{host.state}/checkpoint.json" in result["msg"]


def test_a_kubelet_checkpoint_that_cannot_be_read_is_named(host: GpuHost) -> None:
    file = host.kubelet / "device-plugins" / "kubelet_internal_checkpoint"
    file.write_text('{"Data": {"PodDeviceEntries": [{}]}}')
    result = answer(host)
    assert result["failed"]
    assert str(file) in result["msg"]
