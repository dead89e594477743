"""A node that says other cards each moment is searched anew in each question, for so long."""

from collections.abc import Callable

from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.search_time import HardwareChanges, SearchTime
from gpustack.model.node import Node
from gpustack.model.refusal import Reason
from tests.extender.states import known, view, waiting
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
        said = evaluator.of(waiting(f"a{at}", CARD), NAMES, time)
        assert said.of("n1").reason is None
        reasons.append(said.of("n0").reason)
        assert said.unsearched is time.ran_out is (reasons[-1] is not None)
    assert reasons[:20] == [None] * 20
    assert reasons[25:].count(None) <= 1
    assert set(reasons) == {None, Reason.NOT_SEARCHED}
    clock.seconds += 60
    assert evaluator.of(waiting("b", CARD), NAMES, SearchTime(1.0, clock)).of("n0").reason is None


def test_a_node_that_changes_seldom_is_searched_as_often_as_it_is_asked() -> None:
    clock = SearchClock()
    changes = HardwareChanges(clock, busy(1.0))
    changes.learn("n0")
    for _ in range(10):  # of a node that has just come nothing counts
        with changes.search("n0"):
            assert not changes.over("n0")
    changes.learn("n0")
    clock.seconds += 61
    for _ in range(10):
        with changes.search("n0"):
            assert not changes.over("n0")


def test_a_node_that_has_gone_is_forgotten() -> None:
    clock = SearchClock()
    changes = HardwareChanges(clock, busy(5.0))
    for _ in range(2):
        changes.learn("n0")
    with changes.search("n0"):
        pass
    assert changes.over("n0")
    changes.forget("n0")
    assert not changes.over("n0")
