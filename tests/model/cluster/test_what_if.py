"""Questions about a copy of the cluster, and the identities between their answers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Cluster, Pod, Tenant, settle
from gpustack.model.cluster.eligibility import Demands, Host, Taint, Toleration
from gpustack.model.cluster.what_if import (
    HOSTNAME_LABEL,
    NoSuchNode,
    capacity,
    in_order_of_demand,
    plan,
    with_more,
    without_nodes,
)
from gpustack.model.model_name import label_safe_model
from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT, Policy
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import Reason
from gpustack.model.request import PodRequest
from tests.model.asking import rank
from tests.model.cluster.test_simulator import clusters, every_policy
from tests.model.machines import node, pod, pods

TWO = [replace(node(2), name=name) for name in ("a", "b")]


def asks(request: PodRequest, name: str = "p", namespace: str = "default") -> Pod:
    return Pod(namespace=namespace, name=name, request=request)


def copies(request: PodRequest, count: int) -> list[Pod]:
    return [asks(request, f"p-{number}") for number in range(count)]


def test_copies_are_placed_until_none_fits_and_the_rest_says_why() -> None:
    answer = plan(settle(TWO, ()), copies(pod((100, 0)), 5))
    assert [each.placement.node for each in answer.placed] == ["a", "a", "b", "b"]
    [left] = answer.unplaced
    assert left.pod.name == "p-4"
    assert {name: why.reason for name, why in left.refusals.items()} == {
        "a": Reason.NO_WHOLE_CARD,
        "b": Reason.NO_WHOLE_CARD,
    }


def test_a_pod_that_does_not_fit_leaves_the_cards_to_the_next_one() -> None:
    answer = plan(settle(TWO, ()), [asks(pod((300, 0)), "big"), asks(pod((50, 8)), "small")])
    assert [each.pod.name for each in answer.placed] == ["small"]
    assert [each.pod.name for each in answer.unplaced] == ["big"]


def test_an_empty_cluster_gives_no_reasons() -> None:
    [left] = plan(settle([], ()), [asks(pod((50, 8)))]).unplaced
    assert left.refusals == {}


def test_a_quota_ends_a_plan_that_the_cards_would_still_allow() -> None:
    limit = Quota(namespaces={"team": NamespaceQuota(cards={"P40": 150})})
    cluster = settle(TWO, (), limit)
    half = pod((50, 8))
    answer = plan(cluster, [asks(half, str(number), "team") for number in range(4)])
    assert len(answer.placed) == 3
    assert {why.reason for why in answer.unplaced[0].refusals.values()} == {Reason.QUOTA_EXCEEDED}
    assert sum(capacity(cluster, asks(half, "p", "team")).values()) == 3
    assert sum(capacity(cluster, asks(half)).values()) == 8


def test_the_pods_of_a_drained_node_go_elsewhere_and_free_their_cards() -> None:
    request = pod((100, 0))
    before = plan(settle(TWO, ()), copies(request, 3))
    tenants = [
        Tenant(uid=each.pod.name, namespace="default", name=each.pod.name, placement=each.placement)
        for each in before.placed
    ]
    cluster = without_nodes(settle(TWO, tenants), ["a"])
    assert [each.name for each in cluster.tenants] == ["p-2"]
    after = plan(cluster, copies(request, 2))
    assert [each.placement.node for each in after.placed] == ["b"]
    assert len(after.unplaced) == 1


def test_new_nodes_are_idle_healthy_and_named_after_their_pattern() -> None:
    used = plan(settle(TWO, ()), copies(pod((100, 0)), 1)).nodes
    cluster = with_more(settle([*used, replace(TWO[0], name="a-new-1")], ()), "a", 2)
    assert sorted(cluster.nodes) == ["a", "a-new-1", "a-new-2", "a-new-3", "b"]
    assert all(use.idle for use in cluster.nodes["a-new-2"].uses)
    assert all(card.healthy and not card.uuid for card in cluster.nodes["a-new-2"].cards)


def test_demanding_pods_come_first() -> None:
    several = [asks(pod(ask), name) for name, ask in
               {"c": (50, 8), "b": (50, 16), "a": (200, 0), "d": (100, 0)}.items()]  # fmt: skip
    assert [each.name for each in in_order_of_demand(several)] == ["a", "d", "b", "c"]


def test_a_missing_node_is_named() -> None:
    with pytest.raises(NoSuchNode, match="no node is named 'c'"):
        without_nodes(settle(TWO, ()), ["c"])
    with pytest.raises(NoSuchNode, match="no node is named 'c'"):
        with_more(settle(TWO, ()), "c", 1)
    with pytest.raises(ValueError, match="can't add -1 nodes"):
        with_more(settle(TWO, ()), "a", -1)


@given(clusters(), pods(), every_policy)
def test_capacity_is_the_count_of_pods_that_a_plan_places(
    several: list[Node], request: PodRequest, policy: Policy
) -> None:
    cluster = settle(several, ())
    room = capacity(cluster, asks(request), policy)
    most = sum(room.values())
    answer = plan(cluster, copies(request, most + 1), policy)
    assert len(answer.placed) == most
    assert {name: sum(each.placement.node == name for each in answer.placed) for name in room} == (
        dict(room)
    )


@given(clusters(), st.lists(pods(), max_size=4), every_policy)
def test_a_plan_over_commits_nothing_and_names_every_nodes_reason(
    several: list[Node], requests: list[PodRequest], policy: Policy
) -> None:
    answer = plan(settle(several, ()), [asks(each) for each in requests], policy)
    assert len(answer.placed) + len(answer.unplaced) == len(requests)
    for left in answer.unplaced:
        assert set(left.refusals) == {one.name for one in several}
        assert not rank(answer.nodes, left.pod.request, policy)
    for before, after in zip(sorted(several, key=lambda one: one.name), answer.nodes, strict=True):
        for card, old, new in zip(before.cards, before.uses, after.uses, strict=True):
            assert new == old or (new.cores <= 100 and new.memory_units <= card.memory_units)


@given(clusters(), pods(), every_policy)
def test_adding_a_like_node_adds_that_nodes_idle_capacity(
    several: list[Node], request: PodRequest, policy: Policy
) -> None:
    cluster = settle(several, ())
    more = with_more(cluster, several[0].name, 1)
    [name] = more.nodes.keys() - cluster.nodes.keys()
    alone = settle([more.nodes[name]], ())
    before, after = (capacity(each, asks(request), policy) for each in (cluster, more))
    assert sum(after.values()) == sum(before.values()) + sum(
        capacity(alone, asks(request), policy).values()
    )


@given(clusters(), pods(), every_policy)
def test_draining_an_added_node_restores_the_cluster(
    several: list[Node], request: PodRequest, policy: Policy
) -> None:
    cluster = settle(several, ())
    more = with_more(cluster, several[0].name, 1)
    [name] = more.nodes.keys() - cluster.nodes.keys()
    again = without_nodes(more, [name])
    assert again == cluster
    assert capacity(again, asks(request), policy) == capacity(cluster, asks(request), policy)


@given(clusters(), st.lists(pods(), min_size=1, max_size=5))
def test_every_pod_of_a_drained_node_is_placed_or_named(
    several: list[Node], requests: list[PodRequest]
) -> None:
    first = plan(settle(several, ()), [asks(each, str(at)) for at, each in enumerate(requests)])
    if not first.placed:
        return
    name = first.placed[0].placement.node
    tenants = [tenant(each.pod, each.placement) for each in first.placed]
    leaving = [each.pod for each in first.placed if each.placement.node == name]
    rest = without_nodes(settle(several, tenants), [name])
    after = plan(rest, in_order_of_demand(leaving))
    named = [each.pod.name for each in after.placed] + [each.pod.name for each in after.unplaced]
    assert sorted(named) == sorted(each.name for each in leaving)


def tenant(of: Pod, placement: Placement) -> Tenant:
    return Tenant(uid=of.name, namespace=of.namespace, name=of.name, placement=placement)


def test_a_node_that_bars_a_pod_gets_no_copy_and_says_the_reason() -> None:
    cluster = replace(settle(TWO, ()), hosts={"a": Host(taints=(Taint(key="k"),))})
    answer = plan(cluster, copies(pod((100, 0)), 3))
    assert [each.placement.node for each in answer.placed] == ["b", "b"]
    [left] = answer.unplaced
    assert {name: why.reason for name, why in left.refusals.items()} == {
        "a": Reason.TAINT_NOT_TOLERATED,
        "b": Reason.NO_WHOLE_CARD,
    }
    assert capacity(cluster, asks(pod((100, 0)))) == {"a": 0, "b": 2}
    tolerant = replace(asks(pod((100, 0))), demands=Demands(tolerations=(Toleration(key="k"),)))
    assert capacity(cluster, tolerant) == {"a": 2, "b": 2}
    both = plan(cluster, [*copies(pod((100, 0)), 3), tolerant])
    assert [each.placement.node for each in both.placed] == ["b", "b", "a"]


def test_a_new_node_is_in_service_with_its_patterns_labels_and_taints() -> None:
    kept, own = Taint(key="k"), Taint(key="node.kubernetes.io/not-ready")
    host = Host(labels={"zone": "z", HOSTNAME_LABEL: "a"}, taints=(kept, own), cordoned=True)
    cluster = with_more(replace(settle(TWO, ()), hosts={"a": host}), "a", 1)
    expected = Host(labels={"zone": "z", HOSTNAME_LABEL: "a-new-1"}, taints=(kept,))
    assert cluster.hosts["a-new-1"] == expected


def test_a_quota_and_the_scheduler_limit_together() -> None:
    limit = Quota(namespaces={"team": NamespaceQuota(cards={"P40": 150})})
    cluster = replace(settle(TWO, (), limit), hosts={"a": Host(cordoned=True)})
    answer = plan(cluster, [asks(pod((50, 8)), str(number), "team") for number in range(4)])
    assert {each.placement.node for each in answer.placed} == {"b"}
    assert len(answer.placed) == 3
    reasons = {name: why.reason for name, why in answer.unplaced[0].refusals.items()}
    assert reasons == {"a": Reason.NODE_UNSCHEDULABLE, "b": Reason.QUOTA_EXCEEDED}
    assert capacity(cluster, asks(pod((50, 8)), "p", "team")) == {"a": 0, "b": 3}


@given(clusters(), st.lists(pods(), min_size=1, max_size=4), every_policy)
def test_a_quota_that_is_never_reached_changes_nothing(
    several: list[Node], requests: list[PodRequest], policy: Policy
) -> None:
    models = {label_safe_model(card.model) for each in several for card in each.cards}
    ample = NamespaceQuota(cards={model: 10**6 for model in models})
    limited = settle(several, (), Quota(namespaces={"default": ample}))
    wanted = [asks(each) for each in requests]
    assert plan(limited, wanted, policy) == plan(settle(several, ()), wanted, policy)


def test_progress_counts_every_pod() -> None:
    told: list[tuple[int, int]] = []
    plan(settle(TWO, ()), copies(pod((100, 0)), 5), EXACT, lambda *done: told.append(done))
    assert told == [(number, 5) for number in range(1, 6)]


def test_questions_leave_the_cluster_as_it_was() -> None:
    cluster = settle(TWO, ())
    plan(cluster, copies(pod((100, 0)), 3))
    capacity(cluster, asks(pod((100, 0))))
    assert cluster == Cluster(nodes={each.name: each for each in TWO})
