"""Nodes of nominated pods: from 1.35 on each pod that waits for a volume is one, any tenant's."""

from dataclasses import replace

import pytest

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.nominated import NominatedPods
from extender.cache.search_time import SearchTime
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import Reason
from gpustack.model.request import BadRequest, Selector
from tests.extender.states import bound, known, view, waiting
from tests.extender.verbs.search_clock import SearchClock
from tests.model import machines

CARD = machines.pod((100, 0))
MANY = machines.pod(*[(1, 1)] * 64)
COUNT = 10
NAMES = tuple(f"n{at}" for at in range(COUNT))
SECONDS = 4.0  # of one question; a search takes one second


def host(name: str, cards: int) -> Node:
    made = (machines.card(minor, uuid=f"{name}-{minor}") for minor in range(cards))
    return Node(name=name, cards=tuple(made))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SearchClock:
    made = SearchClock()
    monkeypatch.setattr("extender.cache.node_evaluator.place", made.slow(place))
    return made


def nominated_everywhere() -> ClusterCache:
    """Nodes with a free card each, the last with two, and a nominated pod on each."""
    seen = view()
    for at, name in enumerate(NAMES):
        seen.set_node(known(host(name, at + 1 + (at == COUNT - 1))))
        for _ in range(at):
            bound(seen, f"t{len(seen.pods)}", CARD, name)
        seen.pod_event("ADDED", waiting(f"first-{name}", CARD, nominated=name))
    return seen


def test_the_next_question_goes_on_behind_nominated_pods(clock: SearchClock) -> None:
    evaluator, asked = NodeEvaluator(nominated_everywhere()), waiting("a", CARD)
    unsearched = []
    for _ in range(8):
        said = evaluator.of(asked, NAMES, SearchTime(SECONDS, clock))
        unsearched.append([each.reason for each in said.answers].count(Reason.NOT_SEARCHED))
    assert unsearched[-1] == 0, unsearched
    again = evaluator.of(waiting("b", CARD), NAMES, SearchTime(0.0, clock))
    assert [each.reason for each in again.answers] == [Reason.NO_WHOLE_CARD] * (COUNT - 1) + [None]


def test_a_pod_that_names_cards_is_asked_for_behind_nominated_pods(clock: SearchClock) -> None:
    evaluator = NodeEvaluator(nominated_everywhere())
    asked = waiting("a", replace(CARD, uuids=Selector(include=("n9-10",))))
    said = evaluator.of(asked, NAMES, SearchTime(1e3, clock))
    assert [name for name, each in said.pairs() if each.reason is None] == ["n9"]


def test_a_nominated_pod_that_changes_is_placed_anew() -> None:
    seen = view()
    seen.set_node(known(host("n0", 2)))
    seen.pod_event("ADDED", waiting("first", CARD, nominated="n0"))
    evaluator, asked = NodeEvaluator(seen), waiting("a", CARD)
    assert evaluator.of(asked, ("n0",)).fits
    seen.pod_event("MODIFIED", waiting("first", machines.pod((200, 0)), nominated="n0"))
    assert not evaluator.of(asked, ("n0",)).fits
    assert evaluator.of(replace(asked, priority=1), ("n0",)).fits


def test_another_holder_of_cards_has_nominated_pods_placed_anew() -> None:
    seen = view()
    seen.set_node(known(host("n0", 2)))
    seen.pod_event("ADDED", waiting("first", CARD, nominated="n0"))
    evaluator, asked = NodeEvaluator(seen), waiting("a", CARD)
    assert evaluator.of(asked, ("n0",)).fits
    bound(seen, "other", CARD, "n0")
    assert not evaluator.of(asked, ("n0",)).fits


def test_what_a_tenant_writes_places_no_nominated_pod_anew(clock: SearchClock) -> None:
    seen = nominated_everywhere()
    evaluator = NodeEvaluator(seen)
    evaluator.of(waiting("a", CARD), NAMES, SearchTime(1e3, clock))
    chosen = replace(CARD, models=Selector(include=("T4",)))
    unreadable = {"shape": None, "problem": BadRequest("Bad", "a user key")}
    for request, fields in ((CARD, {}), (chosen, {}), (None, unreadable), (CARD, {})):
        for name in NAMES:
            changed = waiting(f"first-{name}", request, nominated=name, **fields)
            seen.pod_event("MODIFIED", changed)
        said = evaluator.of(waiting("b", CARD), NAMES, SearchTime(0.0, clock))
        assert [each.reason for each in said.answers] == [Reason.NO_WHOLE_CARD] * (COUNT - 1) + [
            None
        ]


def test_so_many_nominated_pods_of_a_namespace_count() -> None:
    nominated, asked = NominatedPods(), waiting("a", CARD)
    for at in range(300):
        nominated.learn(waiting(f"p{at}", CARD, nominated=f"n{at % 15}"))
    going = {node: nominated.before(asked, node) for node in nominated.nodes}
    assert sum(map(len, going.values())) == 128
    for at in range(30):
        nominated.learn(waiting(f"q{at}", CARD, nominated="n0", namespace="b", priority=at))
    assert [each.priority for each in nominated.before(asked, "n0")][:16] == list(range(15, -1, -1))
    assert len(nominated.before(asked, "n1")) == len(going["n1"])


def test_so_many_nominated_pods_of_all_namespaces_count() -> None:
    """A tenant may make namespaces: a thousand pods of eight took every question 15 ms."""
    nominated, asked = NominatedPods(), waiting("a", CARD)
    for at in range(8 * 128):
        pod = waiting(f"p{at}", CARD, nominated=f"n{at}", namespace=f"greedy{at % 8}")
        nominated.learn(pod)
    assert len(list(nominated.nodes)) == 512
    later = waiting("later", CARD, nominated="n2000", namespace="modest")
    assert nominated.learn(later)  # another has given its node up
    assert nominated.before(asked, "n2000") == [later]
    assert len(list(nominated.nodes)) == 512


def test_so_many_nominated_pods_of_a_node_count() -> None:
    nominated, asked = NominatedPods(), waiting("a", CARD)
    for at in range(100):
        pod = waiting(f"p{at}", CARD, nominated="n0", namespace=f"greedy{at % 2}", priority=at)
        nominated.learn(pod)
    for at in range(100):
        nominated.learn(waiting(f"q{at}", CARD, nominated="n0", namespace=f"small{at}"))
    going = [each.uid for each in nominated.before(asked, "n0")]
    assert len(going) == 32
    # Of the namespace with the most the least important one has gone, until each had one.
    assert going[:2] == ["p31", "p30"]
    assert len([each for each in going if each.startswith("q")]) == 30


def test_a_nominated_pod_counts_with_each_of_its_containers() -> None:
    """512 pods of 64 containers took a question 1.3 s, where each of 16 nodes had changed."""
    nominated = NominatedPods()
    for at in range(8 * 128):
        pod = waiting(f"p{at}", MANY, nominated=f"n{at}", namespace=f"greedy{at % 8}")
        nominated.learn(pod)
    assert len(list(nominated.nodes)) == 512 // 64


def test_many_containers_keep_no_pod_of_higher_priority_from_counting() -> None:
    nominated, asked = NominatedPods(), waiting("a", CARD)
    for at in range(15):
        nominated.learn(waiting(f"p{at}", CARD, nominated="n0", namespace="greedy", priority=1))
    nominated.learn(waiting("many", MANY, nominated="n0", namespace="greedy", priority=2))
    assert len(nominated.before(asked, "n0")) == 16
    vip = waiting("vip", CARD, nominated="n0", namespace="other", priority=3)
    assert nominated.learn(vip)
    assert nominated.before(asked, "n0") == [vip]


@pytest.mark.parametrize(("nodes", "most"), [(1, 32), (512, 512)])
def test_a_pod_of_higher_priority_takes_the_place_of_a_lower_one(nodes: int, most: int) -> None:
    """A tenant of as many namespaces let others take the cards of a preemptor's victims."""
    nominated, asked = NominatedPods(), waiting("a", CARD)
    for at in range(most):
        pod = waiting(f"p{at}", CARD, nominated=f"n{at % nodes}", namespace=f"greedy{at}")
        nominated.learn(pod)
    equal = waiting("equal", CARD, nominated="n0", namespace="modest")
    assert not nominated.learn(equal)
    vip = replace(equal, uid="vip", priority=1000)
    assert nominated.learn(vip)  # another has given its node up
    assert nominated.before(asked, "n0")[0] == vip
    assert sum(len(nominated.before(asked, node)) for node in nominated.nodes) == most


def test_a_nominated_pod_that_goes_leaves_its_place_to_another() -> None:
    nominated, asked = NominatedPods(), waiting("a", CARD)
    further = waiting("further", CARD, nominated="n0")
    for at in range(16):
        nominated.learn(waiting(f"p{at}", CARD, nominated="n0"))
    nominated.learn(further)
    assert "further" not in {each.uid for each in nominated.before(asked, "n0")}
    assert nominated.forget("p3")
    nominated.learn(further)
    assert "further" in {each.uid for each in nominated.before(asked, "n0")}


@pytest.mark.parametrize(
    ("limits", "used", "left"),
    [
        ({"A100": 100}, 0, "P40"),
        ({"A100": 100, "P40": 0}, 0, "P40"),
        ({"A100": 100, "P40": 100}, 1, "P40"),
        ({"P40": 100}, 0, "A100"),
        ({"A100": 0, "Tesla": 100}, 0, "A100"),
        ({}, 0, "A100"),
        ({"A100": 0, "P40": 0}, 0, "A100"),
    ],
)
def test_a_nominated_pod_keeps_a_card_that_its_quota_allows(
    limits: dict[str, int], used: int, left: str
) -> None:
    """It kept the other one: pods of lower priority took the card of its victims."""
    seen = mixed(limits)
    for at in range(used):
        bound(seen, f"team-{at}", CARD, "other", namespace="team")
    seen.pod_event("ADDED", waiting("first", CARD, nominated="mixed", namespace="team"))
    assert left_to_others(NodeEvaluator(seen)) == {left}


def test_a_nominated_pod_keeps_another_card_once_its_quota_is_used_up() -> None:
    seen = mixed({"A100": 100, "P40": 100})
    seen.pod_event("ADDED", waiting("first", CARD, nominated="mixed", namespace="team"))
    evaluator = NodeEvaluator(seen)
    before = left_to_others(evaluator)
    bound(seen, "team-0", CARD, "other", namespace="team")
    assert (before, left_to_others(evaluator)) == ({"A100"}, {"P40"})


def mixed(limits: dict[str, int]) -> ClusterCache:
    """A node with a card of each of two models, another of one P40, and a quota of `team`."""
    seen = view()
    models = ("Tesla P40", "NVIDIA A100")
    cards = tuple(machines.card(at, uuid=f"m-{at}", model=each) for at, each in enumerate(models))
    seen.set_node(known(Node(name="mixed", cards=cards)))
    seen.set_node(known(host("other", 1)))
    seen.set_quota(Quota(namespaces={"team": NamespaceQuota(cards=limits)}))
    return seen


def left_to_others(evaluator: NodeEvaluator) -> set[str]:
    """The models that a pod of another namespace may get on `mixed`, one card at a time."""
    wanted = {name: replace(CARD, models=Selector(include=(name,))) for name in ("P40", "A100")}
    return {
        name
        for name, asked in wanted.items()
        if evaluator.of(waiting(f"low-{name}", asked), ("mixed",)).fits
    }
