"""A container's files have the layout that its hook reads, until nothing of it runs."""

import hashlib
import json
import pathlib
import struct
import zlib

import pytest

from gpustack.adapters import mapped
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.mounts.share_mounts import ShareMounts
from gpustack.model.placement import ContainerPlacement
from tests.agent.host import CORE, KEYS, Host, Pod
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import card

FILES = ("activity", "ledger", "limits")


def layouts(host: Host, pod: Pod) -> list[int]:
    """Return the layout of each of a container's files."""
    return [mapped.read_layout(host.folder(pod, "c0") / name) for name in FILES]


def inodes(host: Host, pod: Pod) -> list[int]:
    return [(host.folder(pod, "c0") / name).stat().st_ino for name in FILES]


def restart_with(host: Host, hook: pathlib.Path) -> None:
    """Let the role install a build of the hook, which restarts the agent."""
    host.stop_agent()
    host.hook = hook
    host.start_agent()


def as_before_layouts(host: Host) -> None:
    """Let the checkpoint be that of an agent which knew one layout alone."""
    file = host.state / "checkpoint.json"
    lines = [json.loads(line[9:]) for line in file.read_text().splitlines()]
    pods = list({each["put"]["uid"]: each["put"] for each in lines[1:]}.values())
    for pod in pods:
        for container in pod["containers"]:
            del container["layout"]
    data = {"pods": pods}
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    checksum = "sha256:" + hashlib.sha256(canonical).hexdigest()
    file.write_text(json.dumps({"version": 1, "checksum": checksum, "data": data}))


def uid_of(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


@pytest.mark.parametrize(("read", "layout"), [(None, 1), ("1\n", 1), ("1 2\n", 2), ("2 3\n", 2)])
def test_a_share_gets_the_newest_layout_that_its_hook_reads(
    host: Host, read: str | None, layout: int
) -> None:
    host.hook = host.files.install_hook("0.2.0", layouts=read)
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    assert layouts(host, pod) == [layout] * 3
    host.kubelet.start_container(pod, "c0", CORE)
    assert layouts(host, pod) == [layout] * 3


@pytest.mark.parametrize(
    ("read", "said"), [("3 4\n", r"reads layouts \[3, 4\].*1 to 2"), ("x\n", "layouts: invalid")]
)
def test_a_hook_that_reads_no_layout_of_ours_is_given_to_no_pod(
    host: Host, read: str, said: str
) -> None:
    host.hook = host.files.install_hook("0.2.0", layouts=read)
    host.start_agent()
    with pytest.raises(AdmissionError, match=f"HostIncomplete: .*{said}"):
        host.kubelet.admit(host.share())


def test_a_pod_of_an_earlier_release_keeps_its_layout_until_it_ends(host: Host) -> None:
    host.hook = host.files.install_hook("0.0.9", layouts=None)
    host.start_agent()
    old = host.share("old")
    host.kubelet.admit(old)
    host.kubelet.start_container(old, "c0", CORE)
    running = host.cri.run(uid_of(old), "c0")
    before = inodes(host, old)
    host.stop_agent()
    as_before_layouts(host)
    restart_with(host, host.files.install_hook("0.2.0"))
    host.api.edit("pods", "old", {"metadata": {"annotations": {KEYS.core_limit: "90"}}})
    limits = host.folder(old, "c0") / "limits"
    host.wait_until(lambda: mapped.read_limits(limits).devices[0].burst_percent == 90)
    host.wait_until(lambda: mapped.read_activity(limits.with_name("activity")).sampled_ns > 0)
    host.cri.exit(running)
    host.kubelet.start_container(old, "c0", CORE)  # the kubelet gives it the old hook again
    assert (layouts(host, old), inodes(host, old)) == ([1, 1, 1], before)
    new = host.share("new")
    host.kubelet.admit(new)
    assert layouts(host, new) == [2, 2, 2]


def test_after_a_reboot_files_have_the_layout_of_the_containers_hook(host: Host) -> None:
    host.start_agent()
    new = host.share("new", 0)
    host.kubelet.admit(new)
    restart_with(host, host.files.install_hook("0.0.9", layouts=None))
    old = host.share("old", 1)
    host.kubelet.admit(old)
    restart_with(host, host.files.install_hook("0.2.0"))
    for pod, layout in ((new, 2), (old, 1)):
        for name in FILES:
            (host.folder(pod, "c0") / name).unlink()
        host.kubelet.start_container(pod, "c0", CORE)
        assert layouts(host, pod) == [layout] * 3


def test_files_follow_the_hook_of_another_allocate(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    restart_with(host, host.files.install_hook("0.0.9", layouts=None))
    host.kubelet.forget(pod)
    host.kubelet.admit(pod)
    assert layouts(host, pod) == [1, 1, 1]


@pytest.mark.parametrize("runs", [True, False])
def test_no_file_of_a_container_that_runs_changes_its_layout(
    tmp_path: pathlib.Path, runs: bool
) -> None:
    held = HeldFiles(DescriptorStore())
    folders = LimitsFiles(
        tmp_path, context_bytes=1, may_run=lambda _, __: runs, held=held, mounts=ShareMounts(None)
    )
    share = ContainerPlacement(
        name="c0", index=0, minors=(1,), uuids=(card(1).uuid,), cores=30, memory_units=4
    )
    for layout, ceiling in ((2, 30), (1, 40), (2, 50)):
        folder = folders.prepare("uid", share, ceiling, layout)
        made = 2 if runs else layout
        assert [mapped.read_layout(folder / name) for name in FILES] == [made] * 3
        assert mapped.read_limits(folder / "limits").devices[0].burst_percent == ceiling
    held.close()


def test_a_pod_taken_up_without_a_record_keeps_its_files(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    response = host.kubelet.admit(pod)["c0"]
    host.kubelet.start_container(pod, "c0", CORE)
    host.cri.run(uid_of(pod), "c0", annotations=response.annotations)
    before = inodes(host, pod)
    host.stop_agent()
    (host.state / "checkpoint.json").unlink()
    host.start_agent()
    host.api.edit("pods", "p", {"metadata": {"annotations": {KEYS.core_limit: "90"}}})
    limits = host.folder(pod, "c0") / "limits"
    host.wait_until(lambda: mapped.read_limits(limits).devices[0].burst_percent == 90)
    assert (layouts(host, pod), inodes(host, pod)) == ([2, 2, 2], before)


@pytest.mark.parametrize("name", ["limits", "activity"])
def test_files_of_a_newer_agent_are_named_and_left_alone(host: Host, name: str) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    folder = host.folder(pod, "c0")
    data = bytearray((folder / name).read_bytes())
    struct.pack_into("<I", data, 8, 3)
    (folder / name).write_bytes(data)
    (folder / "ledger").write_bytes(b"")  # damaged, and all the same not touched
    before = {each: (folder / each).read_bytes() for each in FILES}
    with pytest.raises(
        AdmissionError,
        match=f"LimitsNotWritten: {folder / name}: layout version is 3, .* a newer agent made it",
    ):
        host.kubelet.start_container(pod, "c0", CORE)
    # The activity page is written while its layout is ours.
    kept = [each for each in FILES if each == name or each != "activity"]
    assert {each: (folder / each).read_bytes() for each in kept} == {
        each: before[each] for each in kept
    }


def test_files_that_a_newer_agent_made_are_not_made_again(host: Host) -> None:
    """Their layout stands in the record; after a reboot the files are gone."""
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    host.stop_agent()
    file = host.state / "checkpoint.json"
    header, *_, last = file.read_bytes().splitlines()
    record = json.loads(last[9:])
    record["put"]["containers"][0]["layout"] = 3
    text = json.dumps(record).encode()
    file.write_bytes(b"%s\n%08x %s\n" % (header, zlib.crc32(text), text))
    for name in FILES:
        (host.folder(pod, "c0") / name).unlink()
    host.start_agent()
    said = "LimitsNotWritten: .*: layout version is 3, .* a newer agent made it"
    with pytest.raises(AdmissionError, match=said):
        host.kubelet.start_container(pod, "c0", CORE)
    assert not list(host.folder(pod, "c0").iterdir())
