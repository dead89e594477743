"""A process with the original's library gets its limits from this agent, byte for byte."""

import os
import pathlib
import stat
import struct

import pytest

from gpustack.wire.files.vcuda_config import CONFIG_BYTES
from tests.agent.host import Host, Pod
from tests.agent.virtual_manager.original import (
    MEMORY_UNIT_BYTES,
    Library,
    Original,
    library,
    place,
)

LIMIT = "tencent.com/vcuda-core-limit"


def _served(host: Host, original: Original, pod: Pod) -> pathlib.Path:
    """Start the agent and wait until it has taken a pod's socket over; return its folder."""
    host.start_agent()
    parts = host.agent.virtual_manager
    assert parts is not None
    host.wait_until(lambda: parts.manager.sockets > 0)
    return original.folder(pod)


def _place(host: Host, pod: Pod, container_id: str, process: Library) -> None:
    for pid in process.pids:
        place(host, pid, pod["metadata"]["uid"], container_id)


def _mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("annotations", "soft"),
    [({}, -1), ({LIMIT: "80"}, 80), ({LIMIT: "250"}, 100), ({LIMIT: "-7"}, -7)],
    ids=["hard", "soft", "clamped", "negative"],
)
def test_a_share_of_the_original_gets_its_limits(
    host: Host,
    original: Original,
    program: pathlib.Path,
    annotations: dict[str, str],
    soft: int,
) -> None:
    pod = original.pod("p", annotations=annotations)
    container = original.run(pod)
    folder = _served(host, original, pod)
    uid, limits = pod["metadata"]["uid"], (50, 32 * MEMORY_UNIT_BYTES, soft)
    with library(program, folder, uid=uid, container_id=container, limits=limits) as process:
        _place(host, pod, container, process)
        assert process.initialise() == "ok"
    assert (folder / container / "vcuda.config").stat().st_size == CONFIG_BYTES


def test_whole_cards_of_the_original_are_not_limited(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pod = original.pod("p", cores=100, memory=0)
    container = original.run(pod, cores=100, memory=0)
    folder = _served(host, original, pod)
    uid, limits = pod["metadata"]["uid"], (100, 0, -1)
    with library(program, folder, uid=uid, container_id=container, limits=limits) as process:
        _place(host, pod, container, process)
        assert process.initialise() == "ok"


def test_an_older_library_that_names_its_container_gets_its_limits(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pod = original.pod("p")
    container = original.run(pod)
    folder = _served(host, original, pod)
    (folder / "vcuda.config").touch()  # by which that library tells the layout
    with library(program, folder, uid=pod["metadata"]["uid"], container_id=container) as process:
        _place(host, pod, container, process)
        assert process.initialise() == "ok"
    assert (folder / "c0" / "vcuda.config").stat().st_size == CONFIG_BYTES


def test_each_registration_writes_all_processes_in_order(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pod = original.pod("p")
    container, uid = original.run(pod), pod["metadata"]["uid"]
    folder = _served(host, original, pod)
    place(host, 2_000_000_000, uid, container)  # before the others, in the cgroup's order
    known: set[int] = {2_000_000_000}
    for _ in range(2):
        with library(program, folder, uid=uid, container_id=container) as process:
            _place(host, pod, container, process)
            assert process.initialise() == "ok"
            known.update(process.pids)
        content = (folder / container / "pids.config").read_bytes()
        assert list(struct.unpack(f"<{len(content) // 4}i", content)) == sorted(known)


def test_no_mode_is_wider_than_a_container_needs(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pod = original.pod("p")
    container = original.run(pod)
    own = original.folder(pod) / container
    own.mkdir()
    own.chmod(0o777)
    (own / "vcuda.config").write_bytes(bytes(CONFIG_BYTES))
    (own / "vcuda.config").chmod(0o777)
    folder = _served(host, original, pod)
    with library(program, folder, uid=pod["metadata"]["uid"], container_id=container) as process:
        _place(host, pod, container, process)
        assert process.initialise() == "ok"
    assert [_mode(each) for each in (host.virtual_manager, folder, own)] == [0o700, 0o755, 0o755]
    assert _mode(folder / "vcuda.sock") == 0o666
    assert [_mode(own / each) for each in ("vcuda.config", "pids.config")] == [0o644, 0o644]


def test_limits_that_are_as_they_should_be_are_left_alone(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pod = original.pod("p")
    container = original.run(pod)
    folder = _served(host, original, pod)
    inodes = set()
    for _ in range(2):
        with library(
            program, folder, uid=pod["metadata"]["uid"], container_id=container
        ) as process:
            _place(host, pod, container, process)
            assert process.initialise() == "ok"
        inodes.add((folder / container / "vcuda.config").stat().st_ino)
    assert len(inodes) == 1


@pytest.mark.parametrize("where", ["host", "other pod", "unknown container"])
def test_a_caller_from_elsewhere_gets_nothing(
    host: Host,
    original: Original,
    program: pathlib.Path,
    where: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pod, other = original.pod("p"), original.pod("q")
    container, foreign = original.run(pod), original.run(other)
    folder = _served(host, original, pod)
    uid = pod["metadata"]["uid"]
    with library(program, folder, uid=uid, container_id=container) as process:
        if where == "other pod":
            _place(host, other, foreign, process)
        elif where == "unknown container":
            _place(host, pod, "e" * 64, process)
        assert process.initialise() == "rpc client exit with 255"
    assert not (folder / container).exists()
    assert not (original.folder(other) / foreign).exists()
    assert f"registration refused pod_uid={uid}" in caplog.text


def test_a_container_can_not_say_that_it_is_another(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pod = original.pod("p")
    container = original.run(pod)
    second = host.cri.run(pod["metadata"]["uid"], "c1")
    folder = _served(host, original, pod)
    with library(program, folder, uid=pod["metadata"]["uid"], container_id=container) as process:
        _place(host, pod, second, process)
        assert process.initialise() == "rpc client exit with 255"
    assert not (folder / container).exists()


def test_a_soft_limit_that_is_no_integer_is_refused_by_its_name(
    host: Host,
    original: Original,
    program: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pod = original.pod("p", annotations={LIMIT: "8O" + "x" * 5000})
    container = original.run(pod)
    folder = _served(host, original, pod)
    with library(program, folder, uid=pod["metadata"]["uid"], container_id=container) as process:
        _place(host, pod, container, process)
        assert process.initialise() == "rpc client exit with 255"
    assert f"metadata.annotations[{LIMIT}]: '8O" in caplog.text
    assert "write 1 to 100" in caplog.text


def test_a_link_in_a_folder_is_not_followed(
    host: Host, original: Original, program: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    pod = original.pod("p")
    container = original.run(pod)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (original.folder(pod) / container).symlink_to(elsewhere)
    folder = _served(host, original, pod)
    with library(program, folder, uid=pod["metadata"]["uid"], container_id=container) as process:
        _place(host, pod, container, process)
        assert process.initialise() == "rpc client exit with 255"
    assert list(elsewhere.iterdir()) == []


def test_a_folder_of_another_user_is_not_used(
    host: Host, original: Original, caplog: pytest.LogCaptureFixture
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives folders to other users")
    pod, other = original.pod("p"), original.pod("q")
    os.chown(original.folder(other), 1000, 1000)
    _served(host, original, pod)
    host.wait_until(lambda: "belongs to user 1000" in caplog.text)
    parts = host.agent.virtual_manager
    assert parts is not None
    assert (parts.manager.sockets, parts.manager.problems) == (1, 1)
