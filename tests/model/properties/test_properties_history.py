"""Pods that come and go: cards, quotas and releases, compared with another arithmetic."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Tenant, settle
from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import Placement, Placer, apply, release
from gpustack.model.policies import Policy
from gpustack.model.quota.quota import Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import PodRequest
from gpustack.model.use import Use
from tests.model.clusters import NAMESPACES, quota, several, small_pod, without
from tests.model.machines import dice
from tests.model.policies.test_policies import ALL
from tests.model.properties import reference

STEPS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A pod that was placed."""

    uid: str
    namespace: str
    request: PodRequest
    placement: Placement


@dataclass(slots=True, kw_only=True)
class World:
    """The model's state, and the list of running pods from which all of it must follow."""

    start: dict[str, Node]
    quota: Quota
    policy: Policy
    nodes: dict[str, Node] = field(init=False)
    usage: Usage = field(default_factory=Usage)
    running: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = dict(self.start)

    def placer(self, namespace: str) -> Placer:
        return within(self.quota, self.usage, namespace, self.policy)

    def arrive(self, uid: str, namespace: str, request: PodRequest, names: Sequence[str]) -> None:
        for name in names:
            node = self.nodes[name]
            answer = self.placer(namespace)(node, request)
            if isinstance(answer, Placement):
                self.nodes[name] = apply(node, answer)
                self.usage.put(uid, namespace, uid, node, answer)
                pod = Running(uid=uid, namespace=namespace, request=request, placement=answer)
                self.running.append(pod)
                return
            self.check_refusal(namespace, node, request, answer)

    def leave(self, pod: Running) -> None:
        self.running.remove(pod)
        self.usage.drop(pod.uid)
        name = pod.placement.node
        self.nodes[name] = release(self.nodes[name], pod.placement)

    def check_refusal(
        self, namespace: str, node: Node, request: PodRequest, answer: Refusal
    ) -> None:
        """Check that a pod that the quota refuses fits without it, and would exceed it."""
        event(answer.reason)
        plain = place(node, request, self.policy)
        if isinstance(plain, Refusal) or len({card.model for card in node.cards}) > 1:
            return  # on a node of several models the pod may take another model
        more = Running(uid="", namespace=namespace, request=request, placement=plain)
        assert not self.obeys_quota([*self.running, more])
        assert answer.reason in QUOTA_REASONS

    def check(self) -> None:
        for name, node in self.nodes.items():
            taken = [list(self.of_card(name, at)) for at in range(len(node.cards))]
            for card, before, now, parts in zip(
                node.cards, self.start[name].uses, node.uses, taken, strict=True
            ):
                cores = before.cores + sum(part[0] for part in parts)
                units = before.memory_units + sum(part[1] for part in parts)
                assert (now.cores, now.memory_units) == (cores, units)
                assert not parts or (cores <= 100 and units * reference.UNIT <= card.memory_bytes)
        assert self.obeys_quota(self.running)

    def of_card(self, name: str, at: int) -> Sequence[tuple[int, int]]:
        """Return what each running pod needs of one card."""
        held = (
            reference.held(self.start[name], pod.request, pod.placement)
            for pod in self.running
            if pod.placement.node == name
        )
        return [each[at] for each in held if at in each]

    def obeys_quota(self, running: Sequence[Running]) -> bool:
        for namespace, limit in self.quota.namespaces.items():
            used = dict.fromkeys(limit.cards, 0)
            for pod in running:
                if pod.namespace != namespace:
                    continue
                node = self.start[pod.placement.node]
                if limit.pools and node.pool not in limit.pools:
                    return False
                for at, (cores, _) in reference.held(node, pod.request, pod.placement).items():
                    known = reference.model_names(node.cards[at])
                    meant = [name for name in limit.cards if name.lower() in known]
                    if not meant:
                        return False
                    for name in meant:
                        used[name] += cores
            if any(used[name] > most for name, most in limit.cards.items()):
                return False
        return True


QUOTA_REASONS = {Reason.QUOTA_EXCEEDED, Reason.MODEL_FORBIDDEN, Reason.POOL_FORBIDDEN}


def lived_through(rolled: random.Random, count: int, steps: int, *, check: bool) -> World:
    start = {node.name: node for node in several(rolled, count, most_cards=4)}
    world = World(start=start, quota=quota(rolled), policy=rolled.choice(ALL))
    for number in range(steps):
        if world.running and rolled.random() < 0.3:
            world.leave(rolled.choice(world.running))
        else:
            names = rolled.sample(sorted(start), len(start))
            request = small_pod(rolled, start[names[0]])
            world.arrive(f"pod-{number}", rolled.choice(NAMESPACES), request, names)
        if check:
            world.check()
    return world


@given(dice, st.integers(1, 3), st.integers(1, STEPS))
def test_no_card_or_quota_is_ever_exceeded_and_quotas_refuse_with_cause(
    rolled: random.Random, count: int, steps: int
) -> None:
    world = lived_through(rolled, count, steps, check=True)
    event(f"{min(4, len(world.running))} at the end")


@given(dice, st.integers(1, 3), st.integers(1, STEPS))
def test_releasing_in_any_order_restores_the_exact_state(
    rolled: random.Random, count: int, steps: int
) -> None:
    world = lived_through(rolled, count, steps, check=False)
    event(f"{min(4, len(world.running))} to leave")
    tenants = [
        Tenant(uid=pod.uid, namespace=pod.namespace, name=pod.uid, placement=pod.placement)
        for pod in world.running
    ]
    cluster = settle(world.start.values(), rolled.sample(tenants, len(tenants)))
    assert cluster.nodes == world.nodes
    assert without(cluster, tenants).nodes == world.start
    for pod in rolled.sample(world.running, len(world.running)):
        world.leave(pod)
    assert world.nodes == world.start
    assert all(world.usage.used(namespace, "P40") == 0 for namespace in NAMESPACES)


@given(dice, st.integers(2, 5))
def test_decisions_that_collide_are_counted_and_given_back_in_full(
    rolled: random.Random, count: int
) -> None:
    [node] = several(rolled, 1)
    requests = [small_pod(rolled, node) for _ in range(count)]
    decided = [(each, place(node, each)) for each in requests]
    taken = [(each, answer) for each, answer in decided if isinstance(answer, Placement)]
    state = node
    for _, answer in taken:
        state = apply(state, answer)
    held = [reference.held(node, *each) for each in taken]
    for at, (before, now) in enumerate(zip(node.uses, state.uses, strict=True)):
        parts = [each[at] for each in held if at in each]
        assert now.cores == before.cores + sum(cores for cores, _ in parts)
        assert now.memory_units == before.memory_units + sum(units for _, units in parts)
    event(f"over-committed: {any(use.cores > 100 for use in state.uses)}")
    for _, answer in rolled.sample(taken, len(taken)):
        state = release(state, answer)
    assert state == node


@given(dice)
def test_a_pod_that_was_never_placed_cannot_be_given_back(rolled: random.Random) -> None:
    [node] = several(rolled, 1)
    idle = node.with_uses((Use(),) * len(node.cards))
    answer = place(idle, small_pod(rolled, node))
    if isinstance(answer, Refusal):
        return
    with pytest.raises(ValueError, match="holds less than is given back"):
        release(idle, answer)
