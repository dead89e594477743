"""Decisions of another program: each fault of a decision has its own reason."""

from dataclasses import replace

import pytest

from gpustack.model.node import Card, Node
from gpustack.model.placement import ContainerPlacement, Placement
from gpustack.model.refusal import REASON_WORDS, Reason
from gpustack.model.request import PodRequest, Selector, Topology
from gpustack.model.use import Use
from gpustack.model.verification import verify
from tests.model.machines import WHOLE, card, grouped, node, pod

SHARE = ContainerPlacement(
    name="c0", index=0, minors=(1,), uuids=("GPU-1",), cores=50, memory_units=8
)
PAIR = ContainerPlacement(
    name="c0", index=0, minors=(0, 1), uuids=("GPU-0", "GPU-1"), cores=200, memory_units=0
)


def decided(*containers: ContainerPlacement) -> Placement:
    return Placement(node="node", containers=containers)


def test_a_possible_and_justified_decision_passes() -> None:
    assert verify(node(2), decided(SHARE), pod((50, 8))) is None
    assert verify(node(2, grouped(2)), decided(PAIR), pod((200, 0))) is None


def test_a_decision_without_uuids_passes() -> None:
    assert verify(node(2), decided(replace(SHARE, uuids=("",))), pod((50, 8))) is None


@pytest.mark.parametrize(
    ("wrong", "request_", "text"),
    [
        (replace(SHARE, cores=90), pod((50, 8)), "asks 50 cores and 8 memory units (2 GiB)"),
        (replace(SHARE, memory_units=64), pod((50, 8)), "and is given 50 and 64 (16 GiB)"),
        (replace(PAIR, minors=(0,), uuids=("GPU-0",)), pod((200, 0)), "2 different cards"),
        (replace(PAIR, minors=(1, 1)), pod((200, 0)), "2 different cards"),
        (replace(SHARE, index=1), pod((50, 8)), "other containers"),
        (SHARE, pod((50, 8), (50, 8)), "other containers"),
    ],
)
def test_a_decision_that_the_limits_do_not_justify_is_refused(
    wrong: ContainerPlacement, request_: PodRequest, text: str
) -> None:
    refusal = verify(node(2), decided(wrong), request_)
    assert refusal is not None
    assert refusal.reason is Reason.UNJUSTIFIED_DECISION
    assert text in refusal.detail


def test_a_decision_for_another_node_is_refused() -> None:
    refusal = verify(node(2), Placement(node="other", containers=(SHARE,)), pod((50, 8)))
    assert refusal is not None
    assert refusal.reason is Reason.UNJUSTIFIED_DECISION


@pytest.mark.parametrize(
    ("here", "decision", "request_", "expected"),
    [
        (node(1), SHARE, pod((50, 8)), Reason.UNKNOWN_CARD),
        (
            Node(name="node", cards=(card(0), card(1, uuid="GPU-new"))),
            SHARE,
            pod((50, 8)),
            Reason.CARD_RENUMBERED,
        ),
        (
            Node(name="node", cards=(card(0), card(1, healthy=False))),
            SHARE,
            pod((50, 8)),
            Reason.UNHEALTHY_CARDS,
        ),
        (node(2), SHARE, pod((50, 8), models=Selector(exclude=("P40",))), Reason.WRONG_MODEL),
        (node(2), PAIR, pod((200, 0), topology=Topology.NVLINK), Reason.TOPOLOGY_UNMET),
        (
            node(2, taken={1: Use(cores=51, memory_units=1)}),
            SHARE,
            pod((50, 8)),
            Reason.INSUFFICIENT_CORE,
        ),
        (
            node(2, taken={1: Use(cores=1, memory_units=57)}),
            SHARE,
            pod((50, 8)),
            Reason.INSUFFICIENT_MEMORY,
        ),
        (node(2, taken={1: WHOLE}), PAIR, pod((200, 0)), Reason.NO_WHOLE_CARD),
        (
            node(2, taken={1: Use(cores=1, memory_units=1)}),
            PAIR,
            pod((200, 0)),
            Reason.NO_WHOLE_CARD,
        ),
    ],
)
def test_a_decision_that_cannot_be_carried_out_names_reason_and_card(
    here: Node, decision: ContainerPlacement, request_: PodRequest, expected: Reason
) -> None:
    refusal = verify(here, decided(decision), request_)
    assert refusal is not None
    assert refusal.reason is expected
    assert len(refusal.cards) == 1
    assert refusal.message == REASON_WORDS[expected]


@pytest.mark.parametrize(
    ("cards", "detail"),
    [
        (
            (card(0, uuid="GPU-1"), card(1, uuid="GPU-0")),
            "card 1 of node is GPU-0, the decision says GPU-1; that one is card 0 now",
        ),
        ((card(0, uuid="GPU-1"),), "node node has no card 1; that one is card 0 now"),
        (
            (card(0), card(1, uuid="GPU-new")),
            "card 1 of node is GPU-new, the decision says GPU-1",
        ),
    ],
)
def test_a_refusal_of_a_renumbered_card_says_where_it_is_now(
    cards: tuple[Card, ...], detail: str
) -> None:
    refusal = verify(Node(name="node", cards=cards), decided(SHARE), pod((50, 8)))
    assert refusal is not None
    assert refusal.reason is Reason.CARD_RENUMBERED
    assert refusal.detail == detail


def test_a_refusal_of_an_unhealthy_card_says_since_when_and_why() -> None:
    sick = card(1, healthy=False, since="2026-01-01T00:00:00Z", reason="XID 79")
    refusal = verify(Node(name="node", cards=(card(0), sick)), decided(SHARE), pod((50, 8)))
    assert refusal is not None
    assert refusal.detail == "card 1 is unhealthy since 2026-01-01T00:00:00Z: XID 79"


def test_two_containers_of_a_pod_may_not_over_commit_a_card_together() -> None:
    second = replace(SHARE, name="c1", index=1, cores=60)
    refusal = verify(node(2), decided(SHARE, second), pod((50, 8), (60, 8)))
    assert refusal is not None
    assert refusal.reason is Reason.INSUFFICIENT_CORE


def test_every_reason_has_fixed_words_without_a_number() -> None:
    assert set(REASON_WORDS) == set(Reason)
    assert len(set(REASON_WORDS.values())) == len(Reason)
    assert not any(char.isdigit() for words in REASON_WORDS.values() for char in words)
