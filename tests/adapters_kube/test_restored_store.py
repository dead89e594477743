"""An API server whose store was restored from a backup: objects and their versions go back."""

import pytest

from tests.adapters_kube.following import Follower, Watch, pod, wait_until
from tests.fakes.kube_api import FakeKubeApi


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
