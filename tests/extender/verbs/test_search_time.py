"""One question's searches have one time, however many nodes it names; no node is lost by it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pod_disruption_budgets import PodDisruptionBudgets
from extender.cache.search_time import SearchShares, SearchTime
from extender.requeue.requeue import Requeue
from extender.verbs.deadline import Deadline
from extender.verbs.preempt import Preempt
from gpustack.model.equivalence import EquivalenceCache
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import REASON_WORDS, Reason
from gpustack.model.request import PodRequest
from gpustack.model.search.backtracking import Attempt
from gpustack.wire.extender_v1 import NodeVictims, PodName, PreemptionArgs
from gpustack.wire.kube.pod_disruption_budget import Budget, decode_budget
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, node, pod, serving
from tests.extender.states import bound, known, view, waiting
from tests.extender.verbs.search_clock import SearchClock
from tests.fakes.kube_api import FakeKubeApi
from tests.model import machines

CARD = machines.pod((100, 0))
COUNT = 10
NAMES = tuple(f"n{at}" for at in range(COUNT))
SECONDS = 4.0  # of one question; a search takes one second


def host(name: str, cards: int, models: tuple[str, ...] = ("Tesla P40",)) -> Node:
    made = (
        machines.card(minor, uuid=f"{name}-{minor}", model=models[minor % len(models)])
        for minor in range(cards)
    )
    return Node(name=name, cards=tuple(made))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SearchClock:
    made = SearchClock()
    monkeypatch.setattr("extender.cache.node_evaluator.place", made.slow(place))
    return made


@pytest.fixture
def every_search(clock: SearchClock, monkeypatch: pytest.MonkeyPatch) -> SearchClock:
    """A search for the quota's sake, or for victims, takes a second as well."""
    answer = Attempt.answer

    def timed(self: Attempt) -> Any:
        clock.seconds += 1
        return answer(self)

    monkeypatch.setattr(Attempt, "answer", timed)
    return clock


def full_but_last() -> ClusterCache:
    """Nodes of different sizes without a free card; the last one has one."""
    seen = view()
    for at, name in enumerate(NAMES):
        seen.set_node(known(host(name, at + 1)))
        for _ in range(at + (at < COUNT - 1)):
            bound(seen, f"t{len(seen.pods)}", CARD, name)
    return seen


def test_a_question_searches_for_so_long_and_the_next_goes_on(clock: SearchClock) -> None:
    evaluator, asked = NodeEvaluator(full_but_last()), waiting("a", CARD)
    began, unsearched = clock(), []
    for _ in range(3):
        said = evaluator.of(asked, NAMES, SearchTime(SECONDS, clock))
        reasons = [each.reason for each in said.answers]
        unsearched.append(reasons.count(Reason.NOT_SEARCHED))
        assert said.unsearched is (unsearched[-1] > 0)
        assert said.fits is (unsearched[-1] == 0)
    assert unsearched == [6, 2, 0]
    assert clock() - began == COUNT
    # Now all is remembered, and no time is needed.
    assert evaluator.of(asked, NAMES, SearchTime(0.0, clock)).answers[-1].reason is None


def test_a_question_to_one_node_is_always_answered(clock: SearchClock) -> None:
    evaluator = NodeEvaluator(full_but_last())
    said = evaluator.of(waiting("a", CARD), ("n9",), SearchTime(0.5, clock))
    assert said.answers[0].reason is None


def test_nodes_of_nominated_pods_are_searched_in_that_time(clock: SearchClock) -> None:
    """Each pod that goes first on a node costs a search more; the pod's own node comes first."""
    seen = full_but_last()
    evaluator = NodeEvaluator(seen)
    asked = waiting("a", CARD, nominated="n9")
    evaluator.of(asked, NAMES)
    for name in NAMES:
        seen.pod_event("ADDED", waiting(f"first-{name}", CARD, priority=1, nominated=name))
    began, time = clock(), SearchTime(SECONDS, clock)
    said = evaluator.of(asked, NAMES, time)
    assert clock() - began <= SECONDS + 2
    assert said.of("n9").reason is Reason.NO_WHOLE_CARD
    assert said.of("n8").reason is Reason.NOT_SEARCHED


def test_other_models_within_a_quota_are_searched_in_that_time(every_search: SearchClock) -> None:
    """These answers aren't remembered, so the next question begins where this one ended."""
    clock, seen = every_search, view()
    for at, name in enumerate(NAMES):
        seen.set_node(known(host(name, at + 2, models=("Tesla P40", "Tesla T4"))))
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"T4": 100})}))
    evaluator, asked = NodeEvaluator(seen), waiting("a", CARD)
    evaluator.of(replace(asked, namespace="free"), NAMES)
    fitting: set[str] = set()
    for _ in range(COUNT):
        began = clock()
        said = evaluator.of(asked, NAMES, SearchTime(SECONDS, clock))
        assert clock() - began <= SECONDS + 4
        fitting |= {name for name, answer in said.pairs() if answer.reason is None}
    assert fitting == set(NAMES)


def test_other_models_of_one_node_are_searched_in_that_time(every_search: SearchClock) -> None:
    """Sixty-six searches, 0.2 s of a question: a card has room for one share, and few are P40."""
    clock, seen = every_search, view()
    seen.set_node(known(host("n0", 16, models=("Tesla P40", *["Tesla T4"] * 3))))
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 220, "T4": 176})}))
    asked, evaluator = waiting("a", machines.pod(*[(44, 33)] * 9)), NodeEvaluator(seen)
    began, time = clock(), SearchTime(SECONDS, clock)
    assert evaluator.of(asked, ("n0",), time).unsearched
    assert clock() - began <= SECONDS
    (answer,) = evaluator.of(asked, ("n0",), SearchTime(1e5, clock)).answers
    assert answer.reason is Reason.QUOTA_EXCEEDED


def test_a_waiting_pod_is_woken_by_the_node_that_was_searched_later(clock: SearchClock) -> None:
    seen = full_but_last()
    evaluator, asked = NodeEvaluator(seen), waiting("a", CARD)
    retry = Requeue(writer=None, cache=seen, evaluator=evaluator, clock=clock)  # type: ignore[arg-type]
    seen.pod_event("ADDED", asked)
    said = evaluator.of(asked, NAMES, SearchTime(SECONDS, clock))
    assert not said.fits
    retry.refused(asked, said)
    looks: list[list[str]] = []
    while not looks or not looks[-1]:
        assert retry._woken.is_set()
        retry._woken.clear()
        began = clock()
        looks.append([each.uid for each in retry._look()])
        assert clock() - began <= 2
    assert len(looks) == 6
    assert looks[-1] == ["a"]


def test_the_search_for_victims_on_one_node_ends_with_the_time(every_search: SearchClock) -> None:
    clock, seen = every_search, view()
    seen.set_node(known(host("n0", 16)))
    held = [bound(seen, f"t{at}", CARD, "n0").uid for at in range(16)]
    asked = waiting("a", machines.pod((400, 0)), priority=1000)
    verb = Preempt(
        cache=seen,
        evaluator=NodeEvaluator(seen),
        find=lambda _name, _deadline: asked,
        budgets=PodDisruptionBudgets(),
    )
    named = PodName(namespace="default", name="a", uid="a")
    proposed = {"n0": NodeVictims(uids=tuple(held), pdb_violations=0)}
    args = PreemptionArgs(pod=named, victims=proposed)
    began = clock()
    outcome = verb(args, Deadline(SECONDS, clock, lambda: False))
    assert clock() - began == SECONDS
    assert outcome.code == "NoVictims"
    assert verb(args, Deadline(1e5, clock, lambda: False)).code == "Preempting"


def test_budgets_without_an_end_are_looked_at_until_the_time_is_over(
    clock: SearchClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of them cover each pod; to look at them takes a second a pod here."""
    seen = view()
    seen.set_node(known(host("n0", 16)))
    held = [bound(seen, f"t{at}", CARD, "n0", labels_text=b'{"a":"b"}').uid for at in range(16)]
    asked = waiting("a", machines.pod((400, 0)), priority=1000)
    budgets = PodDisruptionBudgets()
    budgets.sync([decode_budget({"metadata": {"name": "b", "namespace": "default"}})])

    def may_cover(_budget: Budget, _pod: object, _labels: object) -> bool:
        clock.seconds += 1
        return True

    monkeypatch.setattr(Budget, "may_cover", may_cover)
    verb = Preempt(
        cache=seen,
        evaluator=NodeEvaluator(seen),
        find=lambda _name, _deadline: asked,
        budgets=budgets,
    )
    named = PodName(namespace="default", name="a", uid="a")
    args = PreemptionArgs(pod=named, victims={"n0": NodeVictims(uids=tuple(held))})
    began = clock()
    assert verb(args, Deadline(SECONDS, clock, lambda: False)).code == "NoVictims"
    assert clock() - began == SECONDS


def test_the_time_of_a_question_is_a_part_of_its_deadline(clock: SearchClock) -> None:
    for seconds, searched in ((60.0, 1.0), (0.5, 0.25)):
        time = Deadline(seconds, clock, lambda: False).search_time
        with time:
            clock.seconds += searched * 0.9
        assert not time.is_over()
        with time:
            clock.seconds += searched * 0.2
        assert time.is_over()


def test_a_namespaces_odd_pods_keep_no_others_waiting(clock: SearchClock) -> None:
    """Each pod is of a kind of its own; the last node alone has room, for any."""
    clock.search = 0.01
    evaluator, shares = NodeEvaluator(full_but_last()), SearchShares(clock)

    def searched(namespace: str, number: int) -> int:
        deadline = Deadline(8.0, clock, lambda: False, shares)
        deadline.begin(namespace)
        asked = waiting(f"{namespace}{number}", machines.pod((99, number + 1)), namespace=namespace)
        said = evaluator.of(asked, NAMES, deadline.search_time)
        return COUNT - [each.reason for each in said.answers].count(Reason.NOT_SEARCHED)

    began = clock()
    found = [searched("greedy", number) for number in range(1500)]
    assert found[:100] == [COUNT] * 100
    assert clock() - began < 13
    assert set(found[200:]) <= {0, 1, 2, 3}
    assert searched("modest", 0) == COUNT
    clock.seconds += 100
    assert searched("greedy", 1500) == COUNT


@pytest.fixture
def mini(api: FakeKubeApi, tmp_path: Path) -> Iterator[MiniCluster]:
    for at in range(3):
        api.create("nodes", node(f"gpu{at}", at + 1))
    with serving(api, tmp_path, clock=SearchClock()) as made:
        yield made


@pytest.fixture
def slow(mini: MiniCluster, monkeypatch: pytest.MonkeyPatch) -> SearchClock:
    """The clock of the extender, whose searches take time by it."""
    clock: Any = mini.service._clock  # a SearchClock
    table = EquivalenceCache.table

    def timed(self: EquivalenceCache, request: PodRequest) -> Any:
        made = table(self, request)
        made._placer = clock.slow(place)
        return made

    monkeypatch.setattr(EquivalenceCache, "table", timed)
    return cast(SearchClock, clock)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("verb", ["filter", "predicates"])
def test_the_scheduler_is_told_which_nodes_were_not_searched(mini: MiniCluster, verb: str) -> None:
    """The pod waits, is not said to fit nowhere, and is woken once the other nodes are searched."""
    created = mini.create(pod("a", 300))
    names = ["gpu0", "gpu1", "gpu2"]
    body = mini.ask(created, names) if verb == "predicates" else _filter(mini, created, names)
    words = f"NotSearched: {REASON_WORDS[Reason.NOT_SEARCHED]}"
    assert body["NodeNames"] == []
    assert body["FailedAndUnresolvableNodes"]["gpu0"].startswith("NoWholeCard")
    assert [body["FailedAndUnresolvableNodes"][name] for name in names[1:]] == [words] * 2
    eventually(lambda: "tencent.com/gpu-retry" in mini.annotations("a"))
    eventually(lambda: _filter(mini, created, names)["NodeNames"] == ["gpu2"])


def test_odd_pods_of_one_namespace_leave_the_scheduler_time(
    mini: MiniCluster, slow: SearchClock
) -> None:
    slow.search = 0.3
    began = slow()
    found = []
    for number in range(100):
        asked = mini.create(pod(f"p{number}", 99, number + 1))
        found.append(_filter(mini, asked, ["gpu0", "gpu1", "gpu2"])["NodeNames"])
    assert slow() - began < 15
    assert all("gpu0" in each for each in found[:11])


def _filter(mini: MiniCluster, asked: dict[str, Any], names: list[str]) -> Any:
    body = json.dumps({"Pod": asked, "Nodes": None, "NodeNames": names}).encode()
    return mini.call("POST", "/scheduler/filter", body).body
