"""A node that says other cards each moment is searched anew in each question, for so long."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.node_results import NodeResults
from extender.cache.search_time import HardwareChanges, SearchTime
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason
from gpustack.model.request import PodRequest, Selector
from gpustack.model.use import IDLE, Use
from tests.extender import states
from tests.extender.calls import bound
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster
from tests.extender.states import known, running, view, waiting
from tests.extender.verbs.search_clock import SearchClock
from tests.model import machines

CARD = machines.pod((100, 0))
NAMES = ("n0", "n1")


def host(name: str, cards: int) -> Node:
    made = (machines.card(minor, uuid=f"{name}-{minor}") for minor in range(cards))
    return Node(name=name, cards=tuple(made))


def busy(seconds: float) -> Callable[[], float]:
    """Return the processor's time of searches that take so long each."""
    used = [0.0]

    def cpu() -> float:
        used[0] += seconds
        return used[0]

    return cpu


def test_a_node_that_changes_each_moment_is_searched_for_so_long() -> None:
    clock = SearchClock()
    seen = view(clock=clock)
    seen.hardware_changes = HardwareChanges(clock, busy(0.1))
    for name in NAMES:
        seen.set_node(known(host(name, 2)))
    evaluator = NodeEvaluator(seen)
    reasons = []
    for at in range(100):
        clock.seconds += 0.1
        seen.node_event("MODIFIED", known(host("n0", 3 + at)))
        time = SearchTime(1.0, clock)
        asked = waiting(f"a{at}", CARD, namespace=f"tenant{at % 4}")
        said = evaluator.of(asked, NAMES, time)
        assert said.of("n1").reason is None
        reasons.append(said.of("n0").reason)
        assert said.unsearched is time.ran_out is (reasons[-1] is not None)
    assert reasons[:15] == [None] * 15
    assert reasons[25:].count(None) <= 1
    assert set(reasons) == {None, Reason.NOT_SEARCHED}
    clock.seconds += 60
    assert evaluator.of(waiting("b", CARD), NAMES, SearchTime(1.0, clock)).of("n0").reason is None


@pytest.mark.parametrize("ends", [False, True])
def test_a_node_that_rewrites_its_pods_is_searched_for_so_long(ends: bool) -> None:
    """It says which cards they hold, and that they have ended and run on."""
    clock = SearchClock()
    seen = view(clock=clock)
    seen.hardware_changes = HardwareChanges(clock, busy(0.1))
    for name in NAMES:
        seen.set_node(known(host(name, 200)))
    evaluator, held = NodeEvaluator(seen), waiting("held", CARD)
    reasons = []
    for at in range(100):
        clock.seconds += 0.1
        node = replace(host("n0", 200), uses=(Use(cores=100),) * at + (IDLE,) * (200 - at))
        placement = place(node, CARD)
        assert isinstance(placement, Placement)
        seen.pod_event("MODIFIED", running(held, placement))
        asked = waiting(f"a{at}", CARD, namespace=f"tenant{at % 4}")
        reasons.append(evaluator.of(asked, NAMES, SearchTime(1.0, clock)).of("n0").reason)
        if ends:
            seen.pod_event("MODIFIED", running(held, placement, finished=True))
    assert reasons[:15] == [None] * 15
    assert reasons[25:].count(None) <= 1


def test_a_tenants_odd_pods_hide_no_changed_node_from_others() -> None:
    """A pod that is deleted by force changes what its node says, and any tenant deletes its own."""
    clock = SearchClock()
    seen = view(clock=clock)
    seen.hardware_changes = HardwareChanges(clock, busy(0.01))
    base = host("n0", 2)
    seen.set_node(known(base))
    evaluator = NodeEvaluator(seen)

    def ask(namespace: str, request: PodRequest) -> Reason | None:
        clock.seconds += 0.01
        asked = waiting(f"{namespace}{clock.seconds}", request, namespace=namespace)
        return evaluator.of(asked, ("n0",), SearchTime(1.0, clock)).of("n0").reason

    for uses in ((Use(cores=10), IDLE), (IDLE, IDLE)):  # its container runs on for a second
        seen.node_event("MODIFIED", known(replace(base, uses=uses)))
    odd = [machines.pod((99, 1), models=Selector(exclude=(f"x{at}",))) for at in range(300)]
    assert [ask("greedy", each) for each in odd][:90] == [None] * 90
    assert {ask("modest", machines.pod((10, at + 1))) for at in range(20)} == {None}


def test_few_changed_nodes_are_searched_though_the_time_is_over() -> None:
    """Odd pods of its own had the others of a namespace refused by each node that had changed."""
    clock, seen = SearchClock(), view()
    names = tuple(f"n{at:02}" for at in range(16))
    for at, name in enumerate(names):
        seen.set_node(known(host(name, at + 2)))
    evaluator, usual = NodeEvaluator(seen), waiting("a", CARD)
    assert not evaluator.of(usual, names).unsearched
    for name in names[-2:]:
        states.bound(seen, f"new-{name}", CARD, name)
    over, odd = SearchTime(1.0, clock), waiting("b", machines.pod((99, 1)))
    over.limit(0.0, lambda _: None)
    assert evaluator.of(odd, names, over).of("n00").reason is Reason.NOT_SEARCHED
    assert not evaluator.of(usual, names, over).unsearched
    assert not over.ran_out


def test_a_pod_that_is_bound_and_ends_changes_no_nodes_word(mini: MiniCluster) -> None:
    bound(mini, "p", "gpu1", 50, 32)
    mini.sees(mini.api.get("pods", "p"))
    mini.api.edit("pods", "p", {"status": {"phase": "Succeeded"}})
    eventually(lambda: mini.free_cores("gpu1") == 200)
    changes = mini.service.cache.hardware_changes
    assert set(changes._since.values()) == {float("-inf")}


def test_a_node_that_changes_seldom_is_searched_as_often_as_it_is_asked() -> None:
    clock = SearchClock()
    changes = HardwareChanges(clock, busy(1.0))
    changes.learn("n0")
    for _ in range(10):  # of a node that has just come nothing counts
        with changes.search("n0", "default"):
            assert not changes.over("n0", "default")
    changes.learn("n0")
    clock.seconds += 61
    for _ in range(10):
        with changes.search("n0", "default"):
            assert not changes.over("n0", "default")


def test_a_node_that_has_gone_is_forgotten() -> None:
    clock = SearchClock()
    changes = HardwareChanges(clock, busy(5.0))
    for _ in range(2):
        changes.learn("n0")
    with changes.search("n0", "default"):
        pass
    assert changes.over("n0", "default")
    changes.forget("n0")
    assert not changes.over("n0", "default")


@pytest.mark.parametrize("namespaces", [4, 30])
@pytest.mark.parametrize("nodes", [1, 8])
def test_a_tenants_many_namespaces_hide_no_changed_node_from_others(
    namespaces: int, nodes: int
) -> None:
    """Each has time of its own; together they take all that a node has, or that all have."""
    clock, cpu, took = SearchClock(), itertools.count(), 0.01
    seen, names = view(clock=clock), tuple(f"n{at}" for at in range(nodes))
    seen.hardware_changes = HardwareChanges(clock, lambda: next(cpu) * took)
    for at, name in enumerate(names):
        seen.set_node(known(host(name, 2)))
        seen.node_event("MODIFIED", known(replace(host(name, 2), uses=(Use(cores=at + 1), IDLE))))
    evaluator = NodeEvaluator(seen)

    def ask(namespace: str, request: PodRequest) -> NodeResults:
        clock.seconds += 0.01
        asked = waiting(f"{namespace}{clock.seconds}", request, namespace=namespace)
        return evaluator.of(asked, names, SearchTime(1.0, clock))

    odd = [machines.pod((99, 1), models=Selector(exclude=(f"x{at}",))) for at in range(600)]
    assert ask("greedy1", odd[0]).fits
    said = [ask(f"greedy{at % namespaces}", each) for at, each in enumerate(odd)]
    assert any(each.unsearched for each in said[-30:])
    cpu, took = itertools.count(), 0.0002  # as usual
    assert not any(ask("modest", machines.pod((10, at + 1))).unsearched for at in range(5))
