"""Watcher against the fake API server: each change is told exactly once."""

import threading
import time
from typing import Any

import msgspec
import pytest

from gpustack.adapters import kube
from tests.adapters_kube.following import (
    PODS,
    WAIT_SECONDS,
    Follower,
    Watch,
    create_many,
    pod,
)
from tests.fakes.kube_api import FakeKubeApi
from tests.waiting import wait_until


def asked_to_watch(api: FakeKubeApi) -> int:
    return len([r for r in api.asked("GET", "/pods$") if "watch" in r.query])


def test_a_watcher_lists_then_tells_each_change(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    api.create("pods", pod("a"))
    watcher = watch()
    assert follower.next() == ("SYNC", ["a"])
    api.create("pods", pod("b"))
    assert follower.next() == ("ADDED", "b")
    api.edit("pods", "b", {"metadata": {"labels": {"x": "y"}}})
    assert follower.next() == ("MODIFIED", "b")
    api.delete("pods", "a")
    assert follower.next() == ("DELETED", "a")
    assert watcher.synced.is_set()
    assert watcher.age_seconds < WAIT_SECONDS


def test_a_watcher_reads_lists_longer_than_one_page(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    names = create_many(api, 2345)
    watch()
    assert follower.next() == ("SYNC", names)
    assert len(api.asked("GET", "/pods$")) >= 3


def test_the_next_page_is_read_while_one_is_decoded(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    names = create_many(api, 1001)

    def decode(raw: msgspec.Raw) -> dict[str, Any]:
        wait_until(lambda: len(api.asked("GET", "/pods$")) >= 2)
        return kube.as_json(raw)

    watch(decode=decode)
    assert follower.next() == ("SYNC", names)


def test_a_pod_that_enters_or_leaves_the_selector_is_added_or_deleted(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    api.create("pods", pod("here", "gpu1"))
    api.create("pods", pod("there", "gpu2"))
    api.create("pods", pod("unbound"))
    watch(field_selector="spec.nodeName=gpu1")
    assert follower.next() == ("SYNC", ["here"])
    api.edit("pods", "unbound", {"spec": {"nodeName": "gpu1"}})
    assert follower.next() == ("ADDED", "unbound")
    api.delete("pods", "here")
    assert follower.next() == ("DELETED", "here")


def test_labels_select_too(api: FakeKubeApi, watch: Watch, follower: Follower) -> None:
    api.create("pods", pod("a", app="web"))
    api.create("pods", pod("b", app="db"))
    watch(label_selector="app=web")
    assert follower.next() == ("SYNC", ["a"])


def create_unseen(api: FakeKubeApi, watch: Watch, follower: Follower) -> None:
    """Create a pod that the watcher hears of only after the watches are released."""
    watch()
    assert follower.next() == ("SYNC", [])
    wait_until(lambda: asked_to_watch(api) == 1)
    api.hold_watches()
    api.create("pods", pod("a"))


def test_a_broken_connection_is_resumed_without_a_gap(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    create_unseen(api, watch, follower)
    api.drop_connections()
    api.release_watches()
    assert follower.next() == ("ADDED", "a")
    assert len(api.asked("GET", "/pods$")) - asked_to_watch(api) == 1  # listed once only


def test_a_forgotten_version_is_listed_again(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    create_unseen(api, watch, follower)
    api.store.compact()
    api.release_watches()
    api.drop_connections()
    assert follower.next() == ("SYNC", ["a"])
    api.create("pods", pod("b"))
    assert follower.next() == ("ADDED", "b")


def test_a_bookmark_moves_the_version_so_that_a_reconnect_needs_no_list(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    watcher = watch(field_selector="metadata.name=a")
    assert follower.next() == ("SYNC", [])
    wait_until(lambda: asked_to_watch(api) == 1)
    api.create("pods", pod("other"))
    api.send_bookmarks()
    wait_until(lambda: watcher.version == str(api.store.version))
    api.store.compact()
    api.drop_connections()
    api.create("pods", pod("a"))
    assert follower.next() == ("ADDED", "a")


def test_a_server_that_refuses_is_asked_again_later(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    api.faults.fail("GET", "/pods$", status=403, reason="Forbidden", times=2)
    watcher = watch()
    assert follower.next() == ("SYNC", [])
    assert watcher.synced.wait(WAIT_SECONDS)


class Pauses(threading.Event):
    """Is set after some waits, and takes no time for them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._count = count

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        if len(self.seconds) == self._count:
            self.set()
        return self.is_set()


def test_a_list_whose_watch_is_always_refused_is_read_ever_more_seldom(
    api: FakeKubeApi, client: kube.KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.store.oldest = 10**9
    told: list[Any] = []
    watcher = kube.Watcher(
        client, PODS, decode=kube.as_json, on_sync=told.append, on_event=lambda *_: None
    )
    pauses = Pauses(6)
    monkeypatch.setattr(watcher, "_stop", pauses)
    watcher._run()
    assert told == [[]] * 6
    assert pauses.seconds[0] < 0.5
    assert pauses.seconds[-1] > 2


def test_silence_beyond_the_limit_is_a_loss_and_opens_a_new_watch(
    api: FakeKubeApi, watch: Watch, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    watch(idle_seconds=0.1)
    assert follower.next() == ("SYNC", [])
    wait_until(lambda: asked_to_watch(api) >= 2)
    api.create("pods", pod("a"))
    assert follower.next() == ("ADDED", "a")
    assert "watch lost" in caplog.text


def test_a_quiet_watch_is_ended_by_the_server_before_it_counts_as_lost(
    api: FakeKubeApi, watch: Watch, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = watch(idle_seconds=2.0)
    assert follower.next() == ("SYNC", [])
    wait_until(lambda: asked_to_watch(api) >= 2)
    api.create("pods", pod("a"))
    assert follower.next() == ("ADDED", "a")
    assert watcher.age_seconds < 2.0
    assert [record.message for record in caplog.records if record.levelname != "DEBUG"] == []
    assert len(api.asked("GET", "/pods$")) - asked_to_watch(api) == 1  # listed once only


@pytest.mark.parametrize("idle_seconds", [2.0, 3.5, 90.0, 3600.0])
def test_the_server_has_time_left_to_end_a_quiet_watch(
    api: FakeKubeApi, watch: Watch, follower: Follower, idle_seconds: float
) -> None:
    watch(idle_seconds=idle_seconds)
    assert follower.next() == ("SYNC", [])
    wait_until(lambda: asked_to_watch(api) == 1)
    (asked,) = (r for r in api.asked("GET", "/pods$") if "watch" in r.query)
    assert 1 <= int(asked.query["timeoutSeconds"]) <= 0.75 * idle_seconds


def test_a_follower_that_fails_gets_the_whole_list_again(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    failed = threading.Event()

    def fail_once(kind: str, value: dict[str, Any]) -> None:
        if not failed.is_set():
            failed.set()
            raise ValueError("can't take it")
        follower.on_event(kind, value)

    watch(on_event=fail_once)
    assert follower.next() == ("SYNC", [])
    api.create("pods", pod("a"))
    assert follower.next() == ("SYNC", ["a"])


def test_stop_ends_a_watch_that_waits_and_calls_nothing_back(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    watcher = watch()
    assert follower.next() == ("SYNC", [])
    wait_until(lambda: asked_to_watch(api) == 1)
    began = time.monotonic()
    watcher.stop()
    assert time.monotonic() - began < 2
    api.create("pods", pod("a"))
    assert follower.told.empty()


@pytest.mark.parametrize(
    ("away_seconds", "bump"),
    [
        (20.0, 0),  # versions are lower now
        (1.0, 10**9),  # etcdutl marked the lost versions as compacted
        (1.0, None),  # a server that only restarts costs no list
    ],
)
def test_a_watcher_follows_a_server_that_was_restored(
    api: FakeKubeApi, watch: Watch, follower: Follower, away_seconds: float, bump: int | None
) -> None:
    now = [1.0]
    api.create("pods", pod("a"))
    watch(clock=lambda: now[0])
    assert follower.next() == ("SYNC", ["a"])
    backup = api.store.backup()
    api.create("pods", pod("b"))
    assert follower.next() == ("ADDED", "b")
    attempt = api.faults.hold("GET", "/pods$")
    api.drop_connections()
    wait_until(attempt.reached.is_set)
    now[0] += away_seconds
    if bump is not None:
        api.store.restore(backup, bump=bump)
    api.drop_connections()
    attempt.release()
    if bump is None:
        api.create("pods", pod("c"))
    assert follower.next() == (("ADDED", "c") if bump is None else ("SYNC", ["a"]))
