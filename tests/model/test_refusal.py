"""Every code of a refusal, each by the plainest case that an operator would expect."""

from dataclasses import replace

import pytest

from gpustack.model.cluster.cluster import Cluster, Pod, settle
from gpustack.model.cluster.eligibility import NO_DEMANDS, Demands, Host, Taint, Term
from gpustack.model.explain.explanation import explain
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import ContainerPlacement, Placement
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import REASON_WORDS, Reason, Refusal
from gpustack.model.request import PodRequest, Selector, Topology
from gpustack.model.use import Use
from gpustack.model.verification import verify
from tests.model.machines import WHOLE, card, grouped, node, pod

SHARE = pod((50, 16))
PAIR = pod((200, 0))
HALF_TAKEN = Use(cores=51, memory_units=1)


def sick(*minors: int, size: int = 2) -> Node:
    cards = tuple(card(minor, healthy=minor not in minors) for minor in range(size))
    return Node(name="node", cards=cards)


def only(model: str) -> Selector:
    return Selector(include=(model,))


OF_CARDS = [
    (node(2, taken={0: WHOLE, 1: HALF_TAKEN}), SHARE, Reason.INSUFFICIENT_CORE),
    (node(1, taken={0: Use(cores=10, memory_units=60)}), SHARE, Reason.INSUFFICIENT_MEMORY),
    (node(1), pod((50, 65)), Reason.INSUFFICIENT_MEMORY),
    (node(2, taken={1: Use(cores=1, memory_units=1)}), PAIR, Reason.NO_WHOLE_CARD),
    (node(1), PAIR, Reason.NO_WHOLE_CARD),
    (node(2), replace(SHARE, models=only("A100")), Reason.WRONG_MODEL),
    (node(2), replace(SHARE, models=Selector(exclude=("p40",))), Reason.WRONG_MODEL),
    (node(2), replace(SHARE, uuids=only("GPU-7")), Reason.WRONG_MODEL),
    (node(2), replace(PAIR, uuids=only("GPU-0")), Reason.WRONG_MODEL),
    (node(2), replace(PAIR, topology=Topology.NVLINK), Reason.TOPOLOGY_UNMET),
    (node(4, grouped(2, 2), {0: WHOLE, 2: WHOLE}), replace(PAIR, topology=Topology.SINGLE_SWITCH),
     Reason.TOPOLOGY_UNMET),
    (sick(0, 1), SHARE, Reason.UNHEALTHY_CARDS),
    (sick(1), PAIR, Reason.UNHEALTHY_CARDS),
    (Node(name="node"), SHARE, Reason.NO_CARDS),
    # The nearest card gives the obstacle: a taken card of the right model, not one of another.
    (Node(name="node", cards=(card(0), card(1, model="Tesla T4")), uses=(HALF_TAKEN, Use())),
     replace(SHARE, models=only("P40")), Reason.INSUFFICIENT_CORE),
]  # fmt: skip


def refused(container: tuple[int, int]) -> Refusal:
    answer = place(node(1), pod(container))
    assert isinstance(answer, Refusal)
    return answer


def test_a_refusal_tells_memory_in_units_and_in_gib() -> None:
    assert "50 cores and 65 memory units (16.25 GiB) of one card wanted" in refused((50, 65)).detail
    assert refused((50, 65)).detail.endswith("free is 100 cores, 64 units (16 GiB)")


def test_an_amount_above_every_card_of_a_node_is_told_in_mib() -> None:
    assert refused((50, 8192)).detail.endswith("64 units (16 GiB); for 8 GiB write 32")


OF_QUOTA = [
    (NamespaceQuota(cards={"P40": 49}), Reason.QUOTA_EXCEEDED),
    (NamespaceQuota(cards={"P40": 0}), Reason.QUOTA_EXCEEDED),
    (NamespaceQuota(cards={"p40": 800, "TESLA-P40": 49}), Reason.QUOTA_EXCEEDED),
    (NamespaceQuota(cards={"A100": 800}), Reason.MODEL_FORBIDDEN),
    (NamespaceQuota(), Reason.MODEL_FORBIDDEN),
    (NamespaceQuota(cards={"P40": 800}, pools=("red",)), Reason.POOL_FORBIDDEN),
]

OF_THE_NODE = [
    (Demands(gates=("later",)), Host(), Reason.SCHEDULING_GATED),
    (NO_DEMANDS, Host(cordoned=True), Reason.NODE_UNSCHEDULABLE),
    (NO_DEMANDS, Host(taints=(Taint(key="gpu"),)), Reason.TAINT_NOT_TOLERATED),
    (Demands(selector=(("zone", "a"),)), Host(), Reason.NODE_SELECTOR_UNMET),
    (Demands(affinity=(Term(),)), Host(), Reason.NODE_AFFINITY_UNMET),
    (NO_DEMANDS, Host(silent=True), Reason.AGENT_SILENT),
]

HELD = ContainerPlacement(
    name="c0", index=0, minors=(1,), uuids=("GPU-1",), cores=50, memory_units=16
)
OF_A_DECISION = [
    (node(1), HELD, Reason.UNKNOWN_CARD),
    (Node(name="node", cards=(card(0, uuid="GPU-1"), card(1, uuid="GPU-0"))), HELD,
     Reason.CARD_RENUMBERED),
    (Node(name="node", cards=(card(0, uuid="GPU-1"),)), HELD, Reason.CARD_RENUMBERED),
    (node(2), replace(HELD, cores=60), Reason.UNJUSTIFIED_DECISION),
]  # fmt: skip

ELSEWHERE = {Reason.BAD_REQUEST, Reason.NODE_UNKNOWN, Reason.NOT_SEARCHED}
"""Codes of the extender alone: it has no request, no node, or no time, to ask the model."""


def answer(cluster: Cluster, request: PodRequest, demands: Demands = NO_DEMANDS) -> Refusal:
    pending = Pod(namespace="team", name="p", request=request, demands=demands)
    (found,) = explain(cluster, pending).answers.values()
    assert isinstance(found, Refusal)
    assert found.message == REASON_WORDS[found.reason]
    return found


@pytest.mark.parametrize(("there", "request_", "expected"), OF_CARDS)
def test_each_obstacle_on_the_cards_has_its_own_code(
    there: Node, request_: PodRequest, expected: Reason
) -> None:
    assert answer(settle([there], ()), request_).reason is expected


@pytest.mark.parametrize(("limit", "expected"), OF_QUOTA)
def test_each_obstacle_in_the_quota_has_its_own_code(
    limit: NamespaceQuota, expected: Reason
) -> None:
    there = replace(node(1), pool="blue")
    found = answer(settle([there], (), Quota(namespaces={"team": limit})), SHARE)
    assert found.reason is expected
    assert "'team'" in found.detail


@pytest.mark.parametrize(("demands", "host", "expected"), OF_THE_NODE)
def test_each_obstacle_between_pod_and_node_has_its_own_code(
    demands: Demands, host: Host, expected: Reason
) -> None:
    cluster = replace(settle([node(1)], ()), hosts={"node": host})
    assert answer(cluster, SHARE, demands).reason is expected


@pytest.mark.parametrize(("there", "given", "expected"), OF_A_DECISION)
def test_each_fault_of_a_decision_has_its_own_code(
    there: Node, given: ContainerPlacement, expected: Reason
) -> None:
    found = verify(there, Placement(node="node", containers=(given,)), SHARE)
    assert found is not None
    assert found.reason is expected


def test_every_code_that_the_model_gives_is_reached() -> None:
    tables = (OF_CARDS, OF_QUOTA, OF_THE_NODE, OF_A_DECISION)
    assert {row[-1] for table in tables for row in table} == set(Reason) - ELSEWHERE


def test_each_card_has_its_first_reason_in_a_fixed_order() -> None:
    cards = (
        card(0, healthy=False, model="Tesla T4"),
        card(1, model="Tesla T4"),
        card(2),
        card(3, memory_units=8),
    )
    there = Node(name="node", cards=cards, uses=(WHOLE, WHOLE, HALF_TAKEN, Use()))
    found = answer(settle([there], ()), replace(SHARE, models=only("P40")))
    assert [(each.minor, each.reason) for each in found.cards] == [
        (0, Reason.UNHEALTHY_CARDS),
        (1, Reason.WRONG_MODEL),
        (2, Reason.INSUFFICIENT_CORE),
        (3, Reason.INSUFFICIENT_MEMORY),
    ]
    assert found.reason is Reason.INSUFFICIENT_MEMORY
