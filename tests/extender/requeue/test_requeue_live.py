"""Room of any cause wakes waiting pods, in a cluster with an API server."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extender import mini_cluster
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, MiniCluster, serving, unschedulable
from tests.fakes.kube_api import FakeKubeApi


def annotated(mini: MiniCluster, name: str) -> Callable[[], bool]:
    return lambda: KEYS.gpu_retry in mini.annotations(name)


def test_a_deletion_that_the_scheduler_sees_first_wakes_the_pod(mini: MiniCluster) -> None:
    mini.place("one", 200)
    mini.place("two", 200)
    mini.api.hold_watches()
    mini.api.delete("pods", "one")
    assert mini.place("waiting", 100)["NodeNames"] == []  # the extender's watch doesn't know yet
    mini.api.release_watches()
    eventually(annotated(mini, "waiting"))
    assert mini.ask(mini.api.get("pods", "waiting"))["NodeNames"] == ["gpu1"]


@pytest.mark.parametrize("cause", ["reservation", "node", "health"])
def test_room_of_any_cause_wakes_the_pod(api: FakeKubeApi, tmp_path: Path, cause: str) -> None:
    api.create("nodes", mini_cluster.node("gpu1", 1))
    with serving(api, tmp_path, reservation_seconds=0.5 if cause == "reservation" else 900) as one:
        one.place("first", 100)
        one.place("waiting", 100)
        if cause == "node":
            api.create("nodes", mini_cluster.node("gpu2", 1))
        elif cause == "health":
            api.edit("nodes", "gpu1", mini_cluster.node("gpu1", 2))
        eventually(annotated(one, "waiting"))


def test_a_pod_that_waited_before_a_restart_is_woken(api: FakeKubeApi, tmp_path: Path) -> None:
    api.create("nodes", mini_cluster.node("gpu1", 1))
    with serving(api, tmp_path) as before:
        before.place("first", 100)
        before.place("waiting", 100)
    api.edit("pods", "waiting", unschedulable("0/1 nodes are available"))
    with serving(api, tmp_path) as after:
        assert KEYS.gpu_retry not in after.annotations("waiting")
        api.delete("pods", "first")
        eventually(annotated(after, "waiting"))
