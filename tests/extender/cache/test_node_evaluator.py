"""Nodes' results: nominated pods, quota, policy and strategy, and which nodes are searched."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from extender.cache import node_evaluator
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.cache.search_time import SearchTime
from extender.policy import PolicyKeeper
from gpustack.model import policies
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.policies import Policy
from gpustack.model.policies.fragmentation import workload_of
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import PodRequest, Selector, Strategy
from gpustack.model.verification import verify
from tests.extender.states import bound, known, running, view, waiting
from tests.extender.verbs.search_clock import SearchClock
from tests.model.machines import card, pod, with_inits


def cluster(*nodes: Node) -> NodeEvaluator:
    seen = view()
    for each in nodes:
        seen.set_node(known(each))
    return NodeEvaluator(seen)


def reasons(answers: NodeEvaluator, asked: PodState) -> Mapping[str, Reason | None]:
    names = sorted(answers._view.node_names)
    return {name: each.reason for name, each in answers.of(asked, names).pairs()}


def first_of(answers: NodeEvaluator, asked: PodState) -> str:
    best = answers.of(asked, ["n0", "n1"]).best()
    assert best is not None
    return best[0]


def host(name: str, cards: int = 1, model: str = "Tesla P40", pool: str = "") -> Node:
    made = tuple(card(minor, model=model, uuid=f"{name}-{minor}") for minor in range(cards))
    return Node(name=name, cards=made, pool=pool)


HALF = pod((50, 32))
CARD = pod((100, 0))


def test_a_repeated_shape_searches_only_the_changed_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def search(node: Node, request: PodRequest, policy: Policy) -> Placement | Refusal:
        asked.append(node.name)
        return place(node, request, policy)

    monkeypatch.setattr(node_evaluator, "place", search)
    answers = cluster(*(host(f"n{i}") for i in range(50)))
    reasons(answers, waiting("a", HALF))
    assert len(asked) == 1  # fifty nodes that are alike
    seen = answers._view
    bound(seen, "b", HALF, "n7")
    asked.clear()
    other_names = replace(HALF, containers=(replace(HALF.containers[0], name="other"),))
    reasons(answers, waiting("c", other_names))
    assert asked == ["n7"]


def test_a_nominated_pod_counts_for_lower_and_equal_priority_only() -> None:
    answers = cluster(host("n0"))
    seen = answers._view
    seen.pod_event("ADDED", waiting("first", CARD, priority=10, nominated="n0"))
    assert reasons(answers, waiting("low", CARD)) == {"n0": Reason.NO_WHOLE_CARD}
    assert reasons(answers, waiting("equal", CARD, priority=10)) == {"n0": Reason.NO_WHOLE_CARD}
    assert reasons(answers, waiting("high", CARD, priority=11)) == {"n0": None}
    assert reasons(answers, waiting("first", CARD, priority=10)) == {"n0": None}


def test_a_nominated_pod_counts_until_it_holds_cards_or_gives_up() -> None:
    answers = cluster(host("n0", cards=2))
    seen = answers._view
    first = waiting("first", CARD, priority=10, nominated="n0")
    seen.pod_event("ADDED", first)
    both = waiting("both", pod((200, 0)))
    assert reasons(answers, both) == {"n0": Reason.NO_WHOLE_CARD}
    assert reasons(answers, waiting("one", CARD)) == {"n0": None}
    placement = place(host("n0", cards=2), CARD)
    assert isinstance(placement, Placement)
    time_ns = seen.assume("first", placement)
    assert reasons(answers, waiting("one", CARD)) == {"n0": None}  # it counts once
    seen.forget("first", time_ns)
    assert reasons(answers, both) == {"n0": Reason.NO_WHOLE_CARD}
    seen.pod_event("MODIFIED", replace(first, nominated="", version=first.version + 1000))
    assert reasons(answers, both) == {"n0": None}


def test_cards_of_ending_victims_belong_to_the_nominated_pod() -> None:
    answers = cluster(host("n0", cards=2))
    seen = answers._view
    bound(seen, "victim", CARD, "n0", deletion=True)
    seen.pod_event("ADDED", waiting("first", pod((200, 0)), priority=10, nominated="n0"))
    # One card is free, and the other will be; both are the nominated pod's.
    assert reasons(answers, waiting("low", HALF)) == {"n0": Reason.INSUFFICIENT_CORE}


def test_a_pod_without_gpu_that_is_bound_is_not_kept() -> None:
    seen = view()
    plain = waiting("plain", None)
    seen.pod_event("ADDED", plain)
    assert seen.pod("plain") == plain
    seen.pod_event("MODIFIED", replace(plain, node="n0", version=plain.version + 1))
    assert seen.pods == []


def test_news_of_a_running_pod_that_keeps_its_cards_changes_no_node() -> None:
    """Kubelets from 1.36 on write its status at each sync, with its IDs in another order."""
    seen = view()
    seen.set_node(known(host("n0")))
    pod = bound(seen, "p", HALF, "n0")
    before = (seen.allocations.version, seen.rooms)
    assert pod.decision is not None
    seen.pod_event("MODIFIED", running(pod, pod.decision.placement))
    assert (seen.allocations.version, seen.rooms) == before


def test_a_list_from_before_our_binding_does_not_unbind_the_pod() -> None:
    answers = cluster(host("n0"))
    seen, asked = answers._view, waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    placement = place(host("n0"), CARD)
    assert isinstance(placement, Placement)
    seen.begin_pods()
    seen.add_pod(replace(running(asked, placement), version=asked.version))
    seen.learn_pods([asked])
    assert seen.placement("a") == placement
    seen.sync_pods([asked], asked.version)
    assert seen.placement("a") == placement


def test_a_node_of_two_models_gives_the_one_that_the_quota_allows() -> None:
    cards = (card(0, model="Tesla P40", uuid="p"), card(1, model="Tesla T4", uuid="t"))
    answers = cluster(Node(name="n0", cards=cards))
    asked = waiting("a", CARD, namespace="team")
    only = Quota(namespaces={"team": NamespaceQuota(cards={"T4": 100})})
    answers._view.set_quota(only)
    said = answers.of(asked, ["n0"])
    placement = answers.placement(asked, "n0", said.of("n0"))
    assert placement.containers[0].uuids == ("t",)
    assert verify(Node(name="n0", cards=cards), placement, CARD) is None


@pytest.mark.parametrize(("hundredths", "reason"), [(90, None), (79, Reason.QUOTA_EXCEEDED)])
def test_an_init_container_gets_the_card_that_the_quota_allows(
    monkeypatch: pytest.MonkeyPatch, hundredths: int, reason: Reason | None
) -> None:
    """On the one card it takes 10 hundredths more than the pod has there, on the other 30."""
    answers = cluster(host("n0", cards=2))
    limit = NamespaceQuota(cards={"P40": hundredths})
    answers._view.set_quota(Quota(namespaces={"default": limit}))
    asked = waiting("a", with_inits(pod((50, 40), (30, 41)), (60, 1)))
    assert reasons(answers, asked) == {"n0": reason}
    # Where the containers alone are too much, nothing more is searched.
    monkeypatch.setattr(answers, "within_quota", None)
    if reason is not None:
        assert reasons(answers, asked) == {"n0": reason}


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (NamespaceQuota(cards={"P40": 99}), Reason.QUOTA_EXCEEDED),
        (NamespaceQuota(cards={"T4": 100}), Reason.MODEL_FORBIDDEN),
        (NamespaceQuota(cards={"P40": 100}, pools=("blue",)), Reason.POOL_FORBIDDEN),
        (NamespaceQuota(cards={"P40": 100}, pools=("red",)), None),
    ],
)
def test_a_quota_refuses_by_amount_model_or_pool(
    limit: NamespaceQuota, reason: Reason | None
) -> None:
    answers = cluster(host("n0", pool="red"))
    answers._view.set_quota(Quota(namespaces={"team": limit}))
    assert reasons(answers, waiting("a", CARD, namespace="team")) == {"n0": reason}
    assert reasons(answers, waiting("b", CARD, namespace="other")) == {"n0": None}


def test_a_node_that_renames_its_cards_meanwhile_speaks_for_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = cluster(host("n0"), host("n1", cards=2))
    seen = answers._view
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 400})}))

    def search(node: Node, request: PodRequest, policy: Policy) -> Placement | Refusal:
        if node.name == "n1":
            seen.set_node(known(host("n0", model="Tesla T4")))
        return place(node, request, policy)

    monkeypatch.setattr(node_evaluator, "place", search)
    assert reasons(NodeEvaluator(seen), waiting("a", CARD))["n1"] is None


def test_cards_asked_by_uuid_are_looked_for_on_every_node() -> None:
    answers = cluster(host("n0"), host("n1"))
    asked = waiting("a", replace(HALF, uuids=Selector(include=("n1-0",))))
    assert reasons(answers, asked) == {"n0": Reason.WRONG_MODEL, "n1": None}


@pytest.mark.parametrize(("strategy", "first"), [(Strategy.BINPACK, "n1"), (Strategy.SPREAD, "n0")])
def test_the_pods_strategy_orders_the_nodes(strategy: Strategy, first: str) -> None:
    answers = cluster(host("n0"), host("n1"))
    bound(answers._view, "there", HALF, "n1")
    asked = waiting("a", replace(HALF, node_strategy=strategy))
    assert first_of(answers, asked) == first


def test_fgd_measures_by_what_the_pods_of_the_cluster_ask() -> None:
    answers = cluster(host("n0", cards=2), host("n1", cards=2))
    seen = answers._view
    now = [0.0]
    keeper = PolicyKeeper("fgd", cache=seen, evaluator=answers, clock=lambda: now[0])
    keeper.renew()
    assert answers.policy == policies.named("fgd")
    for number in range(3):
        seen.pod_event("ADDED", waiting(f"p{number}", CARD))
    seen.pod_event("ADDED", waiting("done", HALF, finished=True))
    keeper.renew()
    assert answers.policy == policies.named("fgd", workload_of([(CARD, 3)]))
    seen.pod_event("ADDED", waiting("half", HALF))
    keeper.renew()
    assert answers.policy == policies.named("fgd", workload_of([(CARD, 3)]))
    now[0] = 600.0
    keeper.renew()
    assert answers.policy == policies.named("fgd", workload_of([(CARD, 3), (HALF, 1)]))


def test_another_policy_gives_other_answers_at_once() -> None:
    answers = cluster(host("n0"), host("n1"))
    bound(answers._view, "there", HALF, "n1")
    asked = waiting("a", HALF)
    assert first_of(answers, asked) == "n1"
    answers.policy = policies.named("spread")
    assert first_of(answers, asked) == "n0"


def test_the_numbers_of_a_refusal_cost_a_few_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other cards are looked for within the quota, and no other Event is written meanwhile."""
    models = ("Tesla P40", "Tesla T4", "NVIDIA L40S", "NVIDIA A30")
    cards = tuple(card(minor, model=model) for minor, model in enumerate(models))
    answers = cluster(Node(name="n0", cards=cards))
    limit = NamespaceQuota(cards=dict.fromkeys(("P40", "T4", "L40S", "A30"), 60))
    answers._view.set_quota(Quota(namespaces={"default": limit}))
    clock = SearchClock(0.01)
    monkeypatch.setattr(node_evaluator, "SearchTime", partial(SearchTime, clock=clock))
    monkeypatch.setattr("gpustack.model.place.place", clock.slow(place))
    began = clock.seconds
    refusal = answers.refusal(waiting("a", pod((70, 8), (30, 8))), "n0")
    assert refusal is not None
    assert refusal.reason is Reason.QUOTA_EXCEEDED
    assert clock.seconds - began < 0.05


def test_what_a_leaving_pod_holds_is_free_for_itself_once() -> None:
    """It is among those that leave, and so it would be taken off twice."""
    answers = cluster(host("n0", cards=2))
    seen = answers._view
    leaves = bound(seen, "leaves", CARD, "n0", deletion=True)
    seen.pod_event("ADDED", waiting("first", CARD, priority=9, nominated="n0"))
    found = answers.node(leaves, "n0")
    assert found is not None
    assert sorted(each.cores for each in found.uses) == [0, 100]
