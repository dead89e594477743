"""Other cards within a quota are searched on each node, whatever some nodes cost or do."""

from collections.abc import Iterable
from typing import Any

import pytest

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.search_time import HardwareChanges, SearchTime
from gpustack.model.node import Node
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import Reason
from gpustack.model.search.backtracking import Attempt
from tests.extender.states import known, view, waiting
from tests.extender.verbs.search_clock import SearchClock
from tests.model import machines

CARD = machines.pod((100, 0))
MODELS = "Tesla P40", "Tesla T4"
SECONDS = 4.0  # of one question; a search takes one second


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SearchClock:
    made, answer = SearchClock(), Attempt.answer

    def timed(self: Attempt) -> Any:
        made.seconds += 1
        return answer(self)

    monkeypatch.setattr(Attempt, "answer", timed)
    return made


def mixed(name: str, models: Iterable[str], memory_units: int = 64) -> Node:
    made = (
        machines.card(at, memory_units, uuid=f"{name}-{at}", model=each)
        for at, each in enumerate(models)
    )
    return Node(name=name, cards=tuple(made))


def limited() -> ClusterCache:
    seen = view()
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"T4": 200})}))
    return seen


def spend(seen: ClusterCache, name: str) -> None:
    """Let the searches of a node that has changed take all that they may."""
    clock = SearchClock()
    changes = seen.hardware_changes = HardwareChanges(clock, cpu=clock)
    for _ in range(2):
        changes.learn(name)
    with changes.search(name, "other"):
        clock.seconds += 5
    assert changes.over(name, "default")


def test_a_node_that_changes_each_moment_speaks_for_no_node_like_it(clock: SearchClock) -> None:
    seen, names = limited(), ("n0", "n1")
    for name in names:
        seen.set_node(known(mixed(name, MODELS)))
    evaluator = NodeEvaluator(seen)
    evaluator.of(waiting("free", CARD, namespace="free"), names)
    spend(seen, "n0")
    said = evaluator.of(waiting("a", CARD), names, SearchTime(SECONDS, clock))
    assert [each.reason for each in said.answers] == [Reason.NOT_SEARCHED, None]


def test_nodes_behind_one_that_changes_each_moment_have_their_turn(clock: SearchClock) -> None:
    seen, names = limited(), tuple(f"n{at:02}" for at in range(12))
    for at, name in enumerate(names):
        seen.set_node(known(mixed(name, MODELS * (at + 1))))
    evaluator, asked = NodeEvaluator(seen), waiting("a", CARD)
    evaluator.of(waiting("free", CARD, namespace="free"), names)
    spend(seen, "n00")
    fitting: set[str] = set()
    for _ in names:
        said = evaluator.of(asked, names, SearchTime(SECONDS, clock))
        fitting |= {name for name, each in said.pairs() if each.reason is None}
    assert fitting == set(names) - {"n00"}


def test_a_node_that_takes_more_time_than_a_question_has_is_passed_over(clock: SearchClock) -> None:
    """It has room for one share on each card, and none of many choices keeps to the quota."""
    seen, names = limited(), ("n0", "n1", "n2")
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 220, "T4": 176})}))
    first, second = MODELS
    seen.set_node(known(mixed("n0", (first, second, second, second) * 4)))
    for name in names[1:]:
        seen.set_node(known(mixed(name, (second, first) * 6, 96)))
    asked = waiting("a", machines.pod(*[(44, 33)] * 9))
    evaluator = NodeEvaluator(seen)
    evaluator.of(waiting("free", asked.request, namespace="free"), names)
    searched: set[str] = set()
    for _ in range(4):
        said = evaluator.of(asked, names, SearchTime(SECONDS, clock))
        searched |= {name for name, e in said.pairs() if e.reason is not Reason.NOT_SEARCHED}
    assert searched == {"n1", "n2"}
