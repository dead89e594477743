"""The questions of preempt about one namespace's pods have a part of the time together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from extender.verbs.preempt_turns import PreemptTurns
from gpustack.model.place import within
from tests.extender.calls import bound, preempt
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, node, pod, serving
from tests.extender.states import waiting
from tests.extender.verbs.search_clock import SearchClock
from tests.fakes.kube_api import FakeKubeApi

NAMES = ("gpu0", "gpu1", "gpu2", "gpu3")
RETRY = "tencent.com/gpu-retry"


@pytest.fixture
def mini(
    api: FakeKubeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MiniCluster]:
    """Each node has a pod on each card, and the last one has a card more."""
    clock = SearchClock(0.25)

    def slow(*limits: Any, **options: Any) -> Any:
        return clock.slow(within(*limits, **options))

    monkeypatch.setattr("extender.verbs.preempt.within", slow)
    for name in NAMES:
        api.create("nodes", node(name, 2 if name == NAMES[-1] else 1))
    with serving(api, tmp_path, clock=clock) as made:
        for name in NAMES:
            bound(made, f"low-{name}", name, 200 if name == NAMES[-1] else 100)
        yield made


@pytest.fixture
def clock(mini: MiniCluster) -> SearchClock:
    return cast(SearchClock, mini.service._clock)


def create(mini: MiniCluster, name: str, cores: int, namespace: str = "default") -> dict[str, Any]:
    """Create a pod of high priority."""
    made = pod(name, cores, priority=1000)
    made["metadata"]["namespace"] = namespace
    return mini.create(made)


def ask(mini: MiniCluster, asked: dict[str, Any]) -> dict[str, list[str]]:
    """Call preempt with the pods of all nodes; returns the answer."""
    return preempt(mini, asked, {each: [f"low-{each}"] for each in NAMES})


LAST = {NAMES[-1]: [f"low-{NAMES[-1]}"]}


def test_pods_that_no_victims_help_leave_the_scheduler_time(
    mini: MiniCluster, clock: SearchClock
) -> None:
    began = clock()
    for number in range(40):
        assert ask(mini, create(mini, f"greedy-{number}", 300, "greedy")) == {}
    assert clock() - began < 12
    assert ask(mini, create(mini, "modest", 200)) == LAST


def test_namespaces_that_no_victims_help_leave_the_scheduler_time(
    mini: MiniCluster, clock: SearchClock
) -> None:
    """A tenant may make namespaces: each had ten seconds of its own."""
    began = clock()
    for number in range(40):
        assert ask(mini, create(mini, f"greedy-{number}", 300, f"greedy-{number}")) == {}
    assert clock() - began < 26
    clock.seconds += 20
    assert ask(mini, create(mini, "modest", 200)) == LAST


def test_pods_that_had_no_time_are_woken_one_after_another() -> None:
    """Woken together, those of a thousand namespaces would take it from each other."""
    clock = SearchClock()
    turns = PreemptTurns(clock)
    for number in range(3):
        turns.used(f"n{number}", 10)
        turns.again(waiting(f"p{number}", None, namespace=f"n{number}"))
    assert turns.due(lambda _: True) == ""
    clock.seconds += 100
    found = [turns.due(lambda uid: uid != "p1") for _ in range(3)]
    assert found == ["p0", "p2", ""]  # one is gone, and takes no other's turn


def test_a_tenants_many_namespaces_leave_a_turn_to_others() -> None:
    """Whichever asks first had the time: twenty that ask each second left none."""
    clock = SearchClock()
    turns = PreemptTurns(clock)

    def ask(namespace: str) -> float:
        seconds = turns.seconds(namespace)
        turns.used(namespace, seconds)
        if not seconds:
            turns.again(waiting(namespace, None, namespace=namespace))
        return seconds

    found = []
    for at in range(120):
        clock.seconds += 1
        for number in range(20):
            ask(f"greedy-{number}")
        if at >= 60 and at % 10 == 0:
            found.append(ask("modest"))
    assert any(found)


def test_a_pod_whose_namespace_had_no_time_is_woken_once_it_has(
    mini: MiniCluster, clock: SearchClock
) -> None:
    for number in range(6):
        ask(mini, create(mini, f"other-{number}", 300))
    asked = create(mini, "late", 200)
    assert ask(mini, asked) == {}
    assert RETRY not in mini.annotations("late")
    clock.seconds += 100
    eventually(lambda: RETRY in mini.annotations("late"))
    assert ask(mini, asked) == LAST


def test_a_namespace_with_little_time_comes_to_each_node_in_turn(
    mini: MiniCluster, clock: SearchClock
) -> None:
    """Seven searches a question: two for each node without hope, and six for the last one."""
    mini.service._preempt_turns.used("default", 100)
    clock.search, found = 0.04, []
    for number in range(len(NAMES)):
        clock.seconds += 2.5
        found.append(ask(mini, create(mini, f"pod-{number}", 200)))
    assert LAST in found


def test_a_node_that_takes_another_namespaces_time_is_no_ones_first(
    mini: MiniCluster, clock: SearchClock
) -> None:
    """One question for a pod that goes to a crowded node alone, and one for a pod of ours."""
    mini.api.create("nodes", node("crowded", 4))
    eventually(lambda: "crowded" in mini.service.cache.node_names)
    for number in range(24):
        bound(mini, f"crowd-{number}", "crowded", 10 + number % 7, 20)
    clock.search, found = 0.08, []
    for namespace in ("default", "pinned"):
        mini.service._preempt_turns.used(namespace, 100)
    for number in range(len(NAMES)):
        clock.seconds += 5
        pinned = create(mini, f"pinned-{number}", 200, "pinned")
        assert preempt(mini, pinned, {"crowded": ["crowd-0"]}) == {}
        found.append(ask(mini, create(mini, f"pod-{number}", 200)))
    assert LAST in found


def test_little_time_finds_victims_on_a_crowded_node(mini: MiniCluster, clock: SearchClock) -> None:
    """All sets of its pods take longer than a question has: each such question was in vain."""
    mini.api.create("nodes", node("crowded", 4))
    eventually(lambda: "crowded" in mini.service.cache.node_names)
    for number in range(24):
        bound(mini, f"crowd-{number}", "crowded", 10 + number % 7, 20)
    mini.service._preempt_turns.used("default", 100)
    clock.search = 0.01
    clock.seconds += 5
    named = preempt(mini, create(mini, "late", 200), {"crowded": ["crowd-0"]})
    assert len(named["crowded"]) >= 2
