"""A node's word frees no quota: pods run on when it is gone, or names a card no more."""

from collections.abc import Callable

import pytest

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.snapshot import Snapshotter
from gpustack.model.node import Node
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import Reason
from tests.extender.states import bound, known, view, waiting
from tests.model import machines

CARD = machines.pod((100, 0))
LIMIT = Quota(namespaces={"default": NamespaceQuota(cards={"A100": 200, "T4": 100})})


def host(name: str, *minors: int, model: str = "NVIDIA A100") -> Node:
    made = (machines.card(minor, uuid=f"{name}-{minor}", model=model) for minor in minors)
    return Node(name=name, cards=tuple(made))


LOSSES: dict[str, Callable[[ClusterCache], None]] = {
    "names no card": lambda seen: seen.node_event("MODIFIED", known(host("n0"))),
    "names one card less": lambda seen: seen.node_event("MODIFIED", known(host("n0", 1))),
    "is gone": lambda seen: seen.node_event("DELETED", known(host("n0", 0, 1))),
    "is in no list": lambda seen: seen.sync_nodes([known(host("n1", 0, 1))], 0),
}


def full() -> ClusterCache:
    """Two pods on n0 use up the quota; n1 is free."""
    seen = view()
    for name in ("n0", "n1"):
        seen.set_node(known(host(name, 0, 1)))
    seen.set_quota(LIMIT)
    for uid in ("a", "b"):
        bound(seen, uid, CARD, "n0")
    return seen


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_a_node_that_loses_cards_frees_no_quota(loss: Callable[[ClusterCache], None]) -> None:
    seen = full()
    loss(seen)
    assert [seen.usage.used("default", each) for each in ("A100", "T4")] == [200, 0]
    evaluator = NodeEvaluator(seen)
    assert evaluator.of(waiting("c", CARD), ["n1"]).answers[0].reason is Reason.QUOTA_EXCEEDED
    taken = Snapshotter(seen, evaluator).take()
    assert [each["used"] for each in taken.quotas[0]["models"]] == [2, 0]  # A100, T4
    assert {each.uid for each in taken.cluster.tenants} == {"a", "b"}
    seen.node_event("ADDED", known(host("n0", 0, 1)))
    assert seen.usage.used("default", "A100") == 200
    for uid in ("a", "b"):
        seen.remove_pod(uid)
    assert seen.usage.used("default", "A100") == 0


def test_a_new_quota_counts_a_lost_card_on_its_model() -> None:
    seen = full()
    seen.node_event("DELETED", known(host("n0")))
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"A100": 300, "T4": 100})}))
    assert [seen.usage.used("default", each) for each in ("A100", "T4")] == [200, 0]


def test_an_extender_that_starts_later_counts_a_lost_card_on_every_model() -> None:
    seen = full()
    later = view()
    later.set_quota(LIMIT)
    later.sync_pods(seen.pods, 0)
    assert [later.usage.used("default", each) for each in ("A100", "T4")] == [200, 200]
