"""Ended pods are freed one by one: a pod that can't be freed delays no other."""

import concurrent.futures
import dataclasses
import itertools
import logging
import pathlib
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from gpustack.adapters.kube import KubeUnavailable
from gpustack.agent.containers import recent_starts
from gpustack.agent.containers.allocation_records import PodRecord
from gpustack.agent.containers.limits_files import LimitsFilesError
from gpustack.wire.pods import finished
from tests.agent import inode_lock
from tests.agent.host import CORE, Host, Pod, card_of
from tests.fakes.kubelet import AdmissionError


def _uid(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def _stick(host: Host, uid: str) -> pathlib.Path:
    """Put something in the place of a pod's folder that can't be removed as a folder is."""
    link = host.state / "containers" / uid
    link.symlink_to(host.root)
    return link


def test_a_folder_that_stays_delays_no_other(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    host.start_agent()
    # They come in any order: the first of eight is hardly ever the last.
    stuck = [_stick(host, f"stuck-{number}") for number in range(8)]
    others = [host.state / "containers" / f"other-{number}" for number in range(8)]
    for folder in others:
        (folder / "c0").mkdir(parents=True)
    for _ in range(3):
        host.agent.recovery.free_ended()
    assert not any(folder.exists() for folder in others)
    for link in stuck:
        said = [text for text in caplog.messages if f"pod_uid={link.name}:" in text]
        assert len(said) == 1
        assert str(link) in said[0]
    assert host.agent.recovery.stuck == len(stuck)
    assert host.agent.recovery.failures >= 3 * len(stuck)


def test_a_folder_that_stays_is_tried_again_until_it_goes(host: Host) -> None:
    host.start_agent()
    link = _stick(host, "stuck")
    host.agent.recovery.free_ended()
    assert host.agent.recovery.stuck == 1
    link.unlink()
    link.mkdir()
    host.agent.recovery.free_ended()
    assert not link.exists()
    assert host.agent.recovery.stuck == 0


def test_a_pod_whose_lookup_fails_delays_no_other(host: Host) -> None:
    host.start_agent()
    one, other = host.share("one", 0), host.share("other", 1)
    host.kubelet.admit(one)
    host.kubelet.admit(other)
    refused = host.api.faults.fail("GET", "/pods/one$", status=500, times=10**6)
    for name in ("one", "other"):
        host.api.delete("pods", name)
    host.wait_until(lambda: host.agent.records.get(_uid(other)) is None)
    assert host.agent.records.get(_uid(one)) is not None
    refused.times = 0
    host.agent.recovery.free_ended()
    assert host.agent.records.get(_uid(one)) is None


@pytest.mark.parametrize("status", [403, 404])
def test_an_answer_of_a_proxy_frees_no_cards(host: Host, status: int) -> None:
    """An API server gives a reason; here its watch has lost the pod, too."""
    host.start_agent()
    pod = host.share("p", 0)
    host.kubelet.admit(pod)
    refused = host.api.faults.fail("GET", "/pods/p$", status=status, reason="", times=10**6)
    host.api.delete("pods", "p")
    host.wait_until(lambda: host.agent.pods.get(_uid(pod)) is None)
    host.agent.recovery.free_ended()
    assert host.agent.records.get(_uid(pod)) is not None
    refused.times = 0
    host.agent.recovery.free_ended()
    assert host.agent.records.get(_uid(pod)) is None


def test_a_pod_that_the_watch_shows_again_keeps_its_cards(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    get, looks = host.agent.pods.get, {threading.current_thread(): False}

    def get_late(uid: str) -> Mapping[str, Any] | None:
        """Show this thread no pod at first: the watch is read anew, from an older list."""
        here = threading.current_thread()
        if looks.get(here, True):
            return get(uid)
        looks[here] = True
        return None

    monkeypatch.setattr(host.agent.pods, "get", get_late)
    host.agent.recovery.free_ended()
    assert host.agent.records.get(_uid(pod)) is not None


def test_a_container_that_starts_during_the_lookup_keeps_its_card(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    is_gone, running = host.agent.pods.is_gone, list[str]()

    def start_meanwhile(uid: str, name: tuple[str, str], seconds: float) -> bool:
        if not running:
            running.append(host.cri.run(uid, "c0"))
        return is_gone(uid, name, seconds)

    monkeypatch.setattr(host.agent.pods, "is_gone", start_meanwhile)
    host.api.delete("pods", "p")
    host.wait_until(lambda: bool(running))
    host.agent.recovery.free_ended()
    assert host.agent.records.get(_uid(pod)) is not None
    host.cri.exit(running[0])
    host.agent.recovery.free_ended()
    assert host.agent.records.get(_uid(pod)) is None


def test_stuck_folders_are_counted_while_two_threads_look(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)  # thousands of warnings take long
    host.start_agent()
    recovery, folders = host.agent.recovery, host.agent.folders
    uids = [frozenset(f"uid-{number}" for number in range(count)) for count in (100, 2000)]
    coming = itertools.cycle(uids)

    def refuse(uid: str) -> None:
        raise LimitsFilesError(uid)

    monkeypatch.setattr(folders, "pods", lambda: next(coming))
    monkeypatch.setattr(folders, "remove", refuse)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            looks = [pool.submit(recovery.free_ended) for _ in range(150)]
            for look in looks:
                look.result()
    finally:
        sys.setswitchinterval(interval)


def test_an_api_server_that_is_away_is_asked_once_a_look(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start_agent()
    pods = [host.share("one", 0), host.share("other", 1)]
    for pod in pods:
        host.kubelet.admit(pod)
    askers: list[threading.Thread] = []

    def is_gone(uid: str, name: tuple[str, str], seconds: float) -> bool:
        askers.append(threading.current_thread())
        raise KubeUnavailable("away")

    monkeypatch.setattr(host.agent.pods, "is_gone", is_gone)
    for pod in pods:
        host.api.delete("pods", pod["metadata"]["name"])
    host.wait_until(lambda: not any(host.agent.pods.get(_uid(pod)) for pod in pods))
    host.agent.recovery.free_ended()
    assert askers.count(threading.current_thread()) == 1


def test_a_start_while_another_pods_cards_are_freed_keeps_its_card(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look at the runtime is for all pods that are gone, and a slow disk keeps them waiting."""
    monkeypatch.setattr(recent_starts, "_SECONDS", 0.0)
    host.start_agent()
    first, second = host.share("first", 1), host.share("second", 1)
    for pod in (first, second):
        host.kubelet.admit(pod)
    host.kubelet.start_container(first, "c0", CORE)
    uid = _uid(second)
    pods, records = host.agent.pods, host.agent.records
    gone, started = threading.Event(), threading.Event()
    is_gone, remove = pods.is_gone, records.remove

    def start_meanwhile(freed: str) -> None:
        if not started.is_set():
            assert freed != uid
            host.cri.make_sandbox(uid)
            host.kubelet.start_container(second, "c0", CORE)
            started.set()
        remove(freed)

    monkeypatch.setattr(pods, "is_gone", lambda *asked: gone.is_set() and is_gone(*asked))
    monkeypatch.setattr(records, "remove", start_meanwhile)
    for name in ("first", "second"):
        host.api.delete("pods", name)
    host.wait_until(lambda: not pods.snapshot()[0])
    gone.set()
    host.agent.recovery.free_ended()
    host.wait_until(started.is_set)
    host.wait_until(lambda: records.get(_uid(first)) is None)
    assert records.get(uid) is not None


def test_a_folder_whose_removal_waits_keeps_no_allocate_waiting(host: Host) -> None:
    """A tenant writes to a ledger on the host's disk for long, by another container's process."""
    host.start_agent()
    pod = host.share("gone", 1)
    host.kubelet.admit(pod)
    with inode_lock.held(host.folder(pod, "c0") / "ledger", alone=True):
        host.end(pod)
        assert card_of(host.kubelet.admit(host.whole_card("next", 1))["c0"]) == "/dev/nvidia1"
    host.wait_until(lambda: not host.folder(pod, "c0").exists())


def test_a_start_with_a_damaged_ledger_keeps_no_allocate_waiting(host: Host) -> None:
    """As above, and the ledger's container starts again meanwhile."""
    host.start_agent()
    pod = host.share("again", 1)
    host.kubelet.admit(pod)
    ledger = host.folder(pod, "c0") / "ledger"
    ledger.write_bytes(bytes(ledger.stat().st_size))
    with inode_lock.held(ledger, alone=True):
        host.kubelet.start_container(pod, "c0", CORE)
        assert card_of(host.kubelet.admit(host.whole_card("next", 0))["c0"]) == "/dev/nvidia0"


@pytest.mark.parametrize("shown", [False, True], ids=["deleted", "failed"])
def test_a_slow_runtime_keeps_allocate_for_a_bounded_time(host: Host, shown: bool) -> None:
    """Thirty pods have ended a moment ago, and each answer about containers takes a second."""
    host.start_agent()
    pod = host.whole_card("p", 1)
    host.kubelet.admit(pod)
    (record,) = host.agent.records.all()
    for number in range(30):
        over = host.whole_card(f"over-{number}", 1)
        _end_a_moment_ago(host, record, over, shown=shown)
    host.wait_until(lambda: not any(map(_is_waiting, host.agent.pods.snapshot()[0])))
    host.cri.answer_seconds = 1.0
    began = time.monotonic()
    with pytest.raises(AdmissionError, match="NoWholeCard"):
        host.kubelet.admit(host.whole_card("next", 1))
    host.cri.answer_seconds = 0.0
    assert time.monotonic() - began < 15


def _is_waiting(pod: Mapping[str, Any]) -> bool:
    return str(pod["metadata"]["name"]).startswith("over-") and not finished(pod)


def _end_a_moment_ago(host: Host, like: PodRecord, pod: Pod, *, shown: bool) -> None:
    """Let a container of a pod be made while the pod ends, which the runtime doesn't know yet."""
    uid, name = _uid(pod), pod["metadata"]["name"]
    host.agent.records.put(dataclasses.replace(like, uid=uid, name=name))
    host.agent.records.starts.note(uid)
    host.cri.make_sandbox(uid)
    if shown:
        host.end(pod, "Failed")
    else:
        host.api.delete("pods", name)
