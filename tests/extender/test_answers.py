"""What is remembered of nodes is what they would say if they were asked now."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.state.answers import Answers
from extender.state.pods import PodState
from extender.state.policy import PolicyKeeper
from gpustack.model import policies
from gpustack.model.device import Node
from gpustack.model.explanation import Reason, Refusal
from gpustack.model.fragmentation import workload_of
from gpustack.model.holding import Placement, apply
from gpustack.model.placement import place
from gpustack.model.quota import NO_QUOTA, NamespaceQuota, Quota, Usage, within
from gpustack.model.request import PodRequest, Selector, Strategy
from gpustack.model.verification import verify
from tests.extender.states import known, running, view, waiting
from tests.model.clusters import NAMESPACES, POOLS, quota, small_pod
from tests.model.machines import card, dice, machine, pod

NAMES = ("n0", "n1", "n2")


class Truth:
    """What happened, counted anew for every question; and the view and answers beside it."""

    def __init__(self, rolled: random.Random, policy: policies.Policy) -> None:
        self.rolled = rolled
        self.view = view()
        self.answers = Answers(self.view, policy)
        self.bases: dict[str, Node] = {}
        self.pods: dict[str, PodState] = {}
        self.held: dict[str, Placement] = {}
        self.quota = NO_QUOTA
        self.numbers = itertools.count()

    def node(self, name: str, without: str = "") -> Node:
        found = self.bases[name]
        for uid, placement in self.held.items():
            if uid != without and placement.node == name:
                found = apply(found, placement)
        return found

    def usage(self) -> Usage:
        counted = Usage()
        for uid, placement in self.held.items():
            if placement.node in self.bases:
                base, owner = self.bases[placement.node], self.pods[uid]
                counted.put(uid, owner.namespace, owner.name, base, placement)
        return counted

    def step(self) -> None:
        steps = (self.set_node, self.drop_node, self.run, self.reserve, self.end, self.limit)
        self.rolled.choices(steps, weights=(3, 1, 6, 3, 3, 1))[0]()

    def set_node(self) -> None:
        name = self.rolled.choice(NAMES)
        made = machine(self.rolled, self.rolled.randint(1, 3), name)
        if self.bases and self.rolled.random() < 0.5:
            made = replace(self.rolled.choice(list(self.bases.values())), name=name)
        self.bases[name] = replace(made, pool=self.rolled.choice(POOLS))
        self.view.set_node(known(self.bases[name]))

    def drop_node(self) -> None:
        name = self.rolled.choice(NAMES)
        self.bases.pop(name, None)
        self.view.drop_node(name)

    def asking(self) -> PodState:
        some = self.rolled.choice(list(self.bases.values()))
        request = small_pod(self.rolled, some)
        made = waiting(f"p{next(self.numbers)}", request, namespace=self.rolled.choice(NAMESPACES))
        self.pods[made.uid] = made
        return made

    def run(self) -> None:
        """A pod is bound, here or there, whether there is room or not."""
        if not self.bases:
            return
        made, base = self.asking(), self.rolled.choice(list(self.bases.values()))
        found = place(base, made.request) if made.request is not None else None
        if isinstance(found, Placement):
            self.held[made.uid] = found
            self.view.pod_event("ADDED", running(made, found))

    def reserve(self) -> None:
        """A pod asks, and gets the best answer."""
        if not self.bases:
            return
        made = self.asking()
        self.view.pod_event("ADDED", made)
        said = self.answers.of(made, NAMES)
        best = self.answers.best(said)
        if best is not None:
            placement = self.answers.placement(made, best, said[best])
            self.view.assume(made.uid, placement)
            self.held[made.uid] = placement

    def end(self) -> None:
        if self.pods:
            uid = self.rolled.choice(list(self.pods))
            self.held.pop(uid, None)
            self.view.pod_event("DELETED", self.pods.pop(uid))

    def limit(self) -> None:
        self.quota = self.rolled.choice([NO_QUOTA, quota(self.rolled)])
        self.view.set_quota(self.quota)

    def check(self, asked: PodState) -> None:
        said = self.answers.of(asked, NAMES)
        usage, own = self.usage(), (asked.uid,)
        policy = self.answers.policy

        def placer(node: Node, request: PodRequest) -> Placement | Refusal:
            return place(node, request, policy)

        limited = within(self.quota, usage, asked.namespace, placer, without=own)
        for name in NAMES:
            if name not in self.bases:
                assert said[name].reason is Reason.NODE_UNKNOWN
                continue
            node = self.node(name, without=asked.uid)
            assert self.view.node(name, without=asked.uid) == node
            assert asked.request is not None
            wanted = limited(node, asked.request)
            if isinstance(wanted, Refusal):
                assert said[name].reason is wanted.reason
                assert self.answers.refusal(asked, name) == wanted
            else:
                assert said[name].reason is None
                assert self.answers.placement(asked, name, said[name]) == wanted
                strategy = policy.read(asked.request).node_strategy
                rank = policy.increase(node, wanted), policy.fullness(node, strategy)
                assert said[name].rank == rank


@given(dice, st.integers(3, 14), st.sampled_from(policies.NAMES))
def test_answers_from_memory_are_those_of_the_nodes_as_they_are(
    rolled: random.Random, steps: int, policy: str
) -> None:
    truth = Truth(rolled, policies.named(policy))
    truth.set_node()
    asked: list[PodState] = []
    for _ in range(steps):
        truth.step()
        if truth.bases and (not asked or rolled.random() < 0.4):
            asked.append(truth.asking())
            truth.view.pod_event("ADDED", asked[-1])
        for each in asked:
            if each.uid in truth.pods:
                truth.check(each)


def cluster(*nodes: Node) -> Answers:
    seen = view()
    for each in nodes:
        seen.set_node(known(each))
    return Answers(seen)


def reasons(answers: Answers, asked: PodState) -> Mapping[str, Reason | None]:
    names = sorted(answers._view.node_names)
    return {name: each.reason for name, each in answers.of(asked, names).items()}


def host(name: str, cards: int = 1, model: str = "Tesla P40", pool: str = "") -> Node:
    made = tuple(card(minor, model=model, uuid=f"{name}-{minor}") for minor in range(cards))
    return Node(name=name, cards=made, pool=pool)


HALF = pod((50, 32))
CARD = pod((100, 0))


def test_a_shape_asked_again_asks_only_the_nodes_that_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = cluster(*(host(f"n{i}") for i in range(50)))
    asked: list[str] = []
    real = Answers._ask

    def ask(self: Answers, table: object, node: Node, *arguments: object) -> object:
        asked.append(node.name)
        return real(self, table, node, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Answers, "_ask", ask)
    reasons(answers, waiting("a", HALF))
    assert len(asked) == 1  # fifty nodes that are alike
    seen = answers._view
    seen.pod_event("ADDED", waiting("b", HALF))
    placement = place(host("n7"), HALF)
    assert isinstance(placement, Placement)
    seen.assume("b", placement)
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


def test_a_nominated_pod_counts_until_it_holds_cards_or_gives_the_node_up() -> None:
    answers = cluster(host("n0", cards=2))
    seen = answers._view
    first = waiting("first", CARD, priority=10, nominated="n0")
    seen.pod_event("ADDED", first)
    both = waiting("both", pod((200, 0)))
    assert reasons(answers, both) == {"n0": Reason.NO_WHOLE_CARD}
    assert reasons(answers, waiting("one", CARD)) == {"n0": None}
    seen.pod_event("MODIFIED", replace(first, nominated="", version=first.version + 1000))
    assert reasons(answers, both) == {"n0": None}


def test_what_victims_still_hold_belongs_to_the_nominated_pod() -> None:
    answers = cluster(host("n0", cards=2))
    seen = answers._view
    victim = waiting("victim", CARD)
    placement = place(host("n0", cards=2), CARD)
    assert isinstance(placement, Placement)
    seen.pod_event("ADDED", running(victim, placement, deletion=True))
    seen.pod_event("ADDED", waiting("first", pod((200, 0)), priority=10, nominated="n0"))
    # One card is free, and the other will be; both are for the pod that waits for them.
    assert reasons(answers, waiting("low", HALF)) == {"n0": Reason.INSUFFICIENT_CORE}


def test_a_pod_without_gpu_that_is_bound_is_not_kept() -> None:
    seen = view()
    plain = waiting("plain", None)
    seen.pod_event("ADDED", plain)
    assert seen.pod("plain") == plain
    seen.pod_event("MODIFIED", replace(plain, node="n0", version=plain.version + 1))
    assert seen.pods == []


def test_a_list_from_before_our_binding_does_not_unbind_the_pod() -> None:
    answers = cluster(host("n0"))
    seen, asked = answers._view, waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    placement = place(host("n0"), CARD)
    assert isinstance(placement, Placement)
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
    placement = answers.placement(asked, "n0", said["n0"])
    assert placement.containers[0].uuids == ("t",)
    assert verify(Node(name="n0", cards=cards), placement, CARD) is None


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


def test_cards_asked_by_uuid_are_looked_for_on_every_node() -> None:
    answers = cluster(host("n0"), host("n1"))
    asked = waiting("a", replace(HALF, uuids=Selector(include=("n1-0",))))
    assert reasons(answers, asked) == {"n0": Reason.WRONG_MODEL, "n1": None}


@pytest.mark.parametrize(("strategy", "first"), [(Strategy.BINPACK, "n1"), (Strategy.SPREAD, "n0")])
def test_the_pods_strategy_orders_the_nodes(strategy: Strategy, first: str) -> None:
    answers = cluster(host("n0"), host("n1"))
    taken = place(host("n1"), HALF)
    assert isinstance(taken, Placement)
    answers._view.pod_event("ADDED", running(waiting("there", HALF), taken))
    asked = waiting("a", replace(HALF, node_strategy=strategy))
    assert answers.best(answers.of(asked, ["n0", "n1"])) == first


def test_fgd_measures_by_what_the_pods_of_the_cluster_ask() -> None:
    answers = cluster(host("n0", cards=2), host("n1", cards=2))
    seen = answers._view
    now = [0.0]
    keeper = PolicyKeeper("fgd", view=seen, answers=answers, clock=lambda: now[0])
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
    taken = place(host("n1"), HALF)
    assert isinstance(taken, Placement)
    answers._view.pod_event("ADDED", running(waiting("there", HALF), taken))
    asked = waiting("a", HALF)
    assert answers.best(answers.of(asked, ["n0", "n1"])) == "n1"
    answers.policy = policies.named("spread")
    assert answers.best(answers.of(asked, ["n0", "n1"])) == "n0"
