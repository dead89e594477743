"""A node moves from the original's manager to this agent, with its pods running."""

import concurrent.futures
import os
import pathlib
import socket

import pytest

from tests.agent.host import CORE, Host, card_of, container, make_pod
from tests.agent.virtual_manager.original import Original, library, place


def _served(host: Host) -> None:
    host.start_agent()
    parts = host.agent.virtual_manager
    assert parts is not None
    host.wait_until(lambda: parts.manager.sockets > 0)


def _answers(folder: pathlib.Path) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(str(folder / "vcuda.sock"))
        except OSError:
            return False
        return True


def test_running_pods_keep_their_cards_and_start_again(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pod = original.pod("p", minor=1, cores=60, memory=160)
    uid = pod["metadata"]["uid"]
    host.cri.exit(original.run(pod, minor=1, cores=60, memory=160))
    before = original.run(pod, minor=1, cores=60, memory=160)
    _served(host)
    record = host.agent.records.get(uid)
    assert record is not None
    assert [each.placement.minors for each in record.containers] == [(1,)]
    # A new pod gets the other card: 60 of 100 are taken here.
    fresh = host.create(make_pod("new", container("c0", 60, 160)))
    assert card_of(host.kubelet.admit(fresh)["c0"]) == "/dev/nvidia0"
    host.cri.exit(before)
    host.kubelet.start_container(pod, "c0", CORE)
    again = original.run(pod, minor=1, cores=60, memory=160)
    folder = original.folder(pod)
    limits = (60, 160 * 256 * 1024 * 1024, -1)
    with library(program, folder, uid=uid, container_id=again, limits=limits) as process:
        for pid in process.pids:
            place(host, pid, uid, again)
        assert process.initialise() == "ok"


def test_a_pod_keeps_its_card_beside_a_container_of_memory_alone(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pod = original.pod("p", minor=1, beside=(container("c1", 0, 8),))
    uid, running = pod["metadata"]["uid"], original.run(pod, minor=1)
    _served(host)
    record = host.agent.records.get(uid)
    assert record is not None
    assert [each.placement.minors for each in record.containers] == [(1,)]
    with library(program, original.folder(pod), uid=uid, container_id=running) as process:
        for pid in process.pids:
            place(host, pid, uid, running)
        assert process.initialise() == "ok"
    fresh = host.create(make_pod("new", container("c0", 60, 32)))  # 50 of card 1 are taken
    assert card_of(host.kubelet.admit(fresh)["c0"]) == "/dev/nvidia0"


def test_a_process_that_registers_while_no_manager_runs_goes_on(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pod = original.pod("p")
    container_id, uid = original.run(pod), pod["metadata"]["uid"]
    folder = original.folder(pod)
    for _ in range(2):  # the original has gone; then this agent restarts
        with library(program, folder, uid=uid, container_id=container_id) as process:
            for pid in process.pids:
                place(host, pid, uid, container_id)
            with concurrent.futures.ThreadPoolExecutor() as pool:
                printed = pool.submit(process.initialise)
                _served(host)
                assert printed.result() == "ok"
        host.stop_agent()


def test_a_pod_of_the_original_has_no_files_of_ours_and_lacks_none(
    host: Host, original: Original
) -> None:
    pod = original.pod("p")
    original.run(pod)
    _served(host)
    host.kubelet.start_container(pod, "c0", CORE)
    host.api.edit("pods", "p", {"metadata": {"labels": {"changed": "yes"}}})
    for _ in range(2):
        host.agent.audit.look()
    assert not any(host.agent.audit.standing.values())
    assert not host.folder(pod, "c0").exists()


def test_folders_of_pods_that_are_gone_are_removed(host: Host, original: Original) -> None:
    stays, goes = original.pod("p"), original.pod("q")
    for pod in (stays, goes):
        ended = original.folder(pod) / ("d" * 64)
        ended.mkdir()
        (ended / "vcuda.config").touch()
        host.cri.exit(original.run(pod))
    living = original.run(stays)
    (original.folder(stays) / living).mkdir()
    host.end(goes)
    _served(host)
    host.wait_until(lambda: not original.folder(goes).exists())
    host.wait_until(lambda: not (original.folder(stays) / ("d" * 64)).exists())
    assert (original.folder(stays) / living).exists()


def test_a_folder_of_a_container_that_still_runs_stays(host: Host, original: Original) -> None:
    stays, goes = original.pod("p"), original.pod("q")
    running = original.run(goes)
    host.end(goes)
    _served(host)
    manager = host.agent.virtual_manager
    assert manager is not None
    manager.manager.look()
    assert original.folder(goes).exists()
    host.cri.exit(running)
    manager.manager.look()
    assert not original.folder(goes).exists()
    assert original.folder(stays).exists()


def test_a_folder_with_files_of_others_is_left(
    host: Host, original: Original, caplog: pytest.LogCaptureFixture
) -> None:
    original.pod("p")
    foreign = host.virtual_manager / "lost+found"
    (foreign / "deep").mkdir(parents=True)
    (foreign / "deep" / "file").write_text("precious")
    _served(host)
    host.wait_until(lambda: "lost+found" in caplog.text)
    assert (foreign / "deep" / "file").read_text() == "precious"


@pytest.mark.parametrize("name", ["a foreign name", "0-of-another-user"])
def test_a_folder_that_cannot_be_read_keeps_no_other_from_its_end(
    host: Host, original: Original, name: str
) -> None:
    stays, goes = original.pod("p"), original.pod("q")
    foreign = host.virtual_manager / name
    foreign.mkdir()
    os.chown(foreign, 65534, 65534)
    host.end(goes)
    _served(host)
    host.wait_until(lambda: not original.folder(goes).exists())
    assert original.folder(stays).exists()
    assert foreign.exists()


def test_a_socket_that_was_removed_is_there_again(host: Host, original: Original) -> None:
    folder = original.folder(original.pod("p"))
    _served(host)
    host.wait_until(lambda: _answers(folder))
    (folder / "vcuda.sock").unlink()
    manager = host.agent.virtual_manager
    assert manager is not None
    manager.manager.look()
    assert _answers(folder)


def test_pods_of_ours_get_no_socket(host: Host, original: Original) -> None:
    original.pod("p")
    _served(host)
    pod = host.share("ours", minor=0)
    host.kubelet.admit(pod)
    manager = host.agent.virtual_manager
    assert manager is not None
    manager.manager.look()
    assert manager.manager.sockets == 1
    assert not (host.virtual_manager / str(pod["metadata"]["uid"])).exists()


def test_a_node_without_the_folder_serves_nobody(host: Host) -> None:
    host.start_agent()
    assert host.agent.virtual_manager is None
    assert not host.virtual_manager.exists()
