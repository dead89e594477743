"""The questions of preempt about one namespace's pods have a part of the time together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from extender.verbs.preempt import Preempt
from gpustack.model.node import Node
from gpustack.model.place import within
from gpustack.model.request import PodRequest
from tests.extender.calls import bound, preempt
from tests.extender.mini_cluster import MiniCluster, node, pod, serving
from tests.fakes.kube_api import FakeKubeApi

NAMES = ("gpu0", "gpu1", "gpu2", "gpu3")


class Clock:
    """Stands still, but for the searches of preempt."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.search = 0.25

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def mini(
    api: FakeKubeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MiniCluster]:
    """Each node has a pod on each card, and the last one has a card more."""
    clock = Clock()

    def slow(*limits: Any, **options: Any) -> Any:
        placer = within(*limits, **options)

        def place(there: Node, request: PodRequest) -> Any:
            clock.seconds += clock.search
            return placer(there, request)

        return place

    monkeypatch.setattr("extender.verbs.preempt.within", slow)
    for name in NAMES:
        api.create("nodes", node(name, 2 if name == NAMES[-1] else 1))
    with serving(api, tmp_path, clock=clock) as made:
        for name in NAMES:
            bound(made, f"low-{name}", name, 200 if name == NAMES[-1] else 100)
        yield made


def asks(mini: MiniCluster, name: str, cores: int, namespace: str = "default") -> Any:
    """Call preempt with a pod of high priority and the nodes' pods; returns the answer."""
    made = pod(name, cores, priority=1000)
    made["metadata"]["namespace"] = namespace
    return preempt(mini, mini.create(made), {each: [f"low-{each}"] for each in NAMES})


def test_pods_that_no_victims_help_leave_the_scheduler_time(mini: MiniCluster) -> None:
    clock = cast(Clock, mini.service._clock)
    began = clock()
    for number in range(40):
        assert asks(mini, f"greedy-{number}", 300, "greedy") == {}
    assert clock() - began < 10 + 40 * 2 * clock.search
    assert asks(mini, "modest", 200) == {NAMES[-1]: [f"low-{NAMES[-1]}"]}


def test_a_namespace_without_time_comes_to_each_node_in_turn(mini: MiniCluster) -> None:
    cast(Clock, mini.service._clock).search = 0.004  # five of them in the time that is always left
    shares = cast(Preempt, mini.service.preempt).shares
    assert shares is not None
    shares.use("default", 100)
    found = [asks(mini, f"pod-{number}", 200) for number in range(len(NAMES))]
    assert {NAMES[-1]: [f"low-{NAMES[-1]}"]} in found
