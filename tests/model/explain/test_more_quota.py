"""What helps a pod only beside more quota: two changes at once, tried together."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Cluster, Pod
from gpustack.model.cluster.eligibility import Host
from gpustack.model.explain.explanation import explain
from gpustack.model.explain.query import Kind
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.request import PodRequest
from gpustack.model.use import Use
from tests.model.asking import alone, changes, fits, in_pool, tenant
from tests.model.clusters import NAMESPACES, clusters, without
from tests.model.machines import WHOLE, node, pod, pods


def limited(hundredths: int, **also: tuple[str, ...]) -> Quota:
    return Quota(namespaces={"team-a": NamespaceQuota(cards={"P40": hundredths}, **also)})


def test_a_pod_short_of_cards_and_quota_is_told_both() -> None:
    machine = node(1)
    theirs = tenant(machine, "theirs", pod((100, 0)), "team-b")
    found = changes(alone(machine, theirs, quota=limited(100)), pod((100, 0), (100, 0)))
    assert not found  # two cards fit on no node of one
    found = changes(alone(machine, theirs, quota=limited(20)), pod((100, 0)))
    ends = found[Kind.PODS_END]
    assert ends.text == (
        "pod team-b/theirs ends, and the quota of namespace 'team-a' allows 1 instead of 0.2 "
        "P40 cards"
    )
    assert ends.names == ("team-b/theirs",)
    assert ends.also == "the quota of namespace 'team-a' allows 1 instead of 0.2 P40 cards"
    assert found[Kind.MORE_CARDS].also == ends.also


def test_a_smaller_request_needs_the_smaller_quota() -> None:
    machine = node(1, taken={0: Use(cores=60)})
    found = changes(alone(machine, quota=limited(0)), pod((50, 8)))
    assert found[Kind.FEWER_CORES].text == (
        "container 'c0' asks 40 instead of 50 cores, and the quota of namespace 'team-a' allows "
        "0.4 instead of 0 P40 cards"
    )


def test_what_needs_no_larger_quota_is_told_alone() -> None:
    machine = node(1)
    mine = tenant(machine, "mine", pod((100, 0)))
    found = changes(alone(machine, mine, quota=limited(100)), pod((100, 0)))
    assert found[Kind.PODS_END].text == "pod team-a/mine ends"
    assert not any(each.also for each in found.values())


def test_a_pool_that_is_forbidden_is_told_beside_the_cards() -> None:
    machine = replace(node(1, taken={0: WHOLE}), pool="training")
    quota = limited(100, pools=("inference",))
    found = changes(alone(machine, quota=quota), pod((100, 0)))
    assert found[Kind.MORE_CARDS].also == ("the quota of namespace 'team-a' allows pool 'training'")


def test_a_node_in_no_pool_is_to_be_put_into_one_of_the_quota() -> None:
    """A quota with pools allows no node that is in none, so no pool can be added to it."""
    found = changes(alone(node(1), quota=limited(100, pools=("blue", "red"))), pod((100, 0)))
    assert list(found) == [Kind.NODE_IN_POOL]
    assert found[Kind.NODE_IN_POOL].names == ("node",)
    assert found[Kind.NODE_IN_POOL].text == "node node is put into pool 'blue' or 'red'"


def test_a_node_in_no_pool_is_told_beside_the_quota() -> None:
    found = changes(alone(node(1), quota=limited(20, pools=("red",))), pod((100, 0)))
    assert found[Kind.NODE_IN_POOL].text == (
        "node node is put into pool 'red', and the quota of namespace 'team-a' allows 1 instead "
        "of 0.2 P40 cards"
    )


def test_a_cordoned_node_is_told_beside_the_quota() -> None:
    cluster = replace(alone(node(1), quota=limited(0)), hosts={"node": Host(cordoned=True)})
    found = explain(cluster, Pod(namespace="team-a", name="p", request=pod((50, 8))))
    (change,) = found.changes
    assert change.kind is Kind.OTHER_NODE
    assert change.text.endswith(
        "and the quota of namespace 'team-a' allows 0.5 instead of 0 P40 cards"
    )


@given(clusters(), pods(most=2), st.sampled_from(NAMESPACES))
def test_both_changes_together_fit_and_neither_does_alone(
    cluster: Cluster, request: PodRequest, namespace: str
) -> None:
    for change in changes(cluster, request, namespace).values():
        if not change.also or change.kind in {Kind.CARDS_REPAIRED, Kind.MORE_CARDS}:
            continue
        assert change.quota is not None
        then = cluster
        if change.kind is Kind.NODE_IN_POOL:
            then = in_pool(cluster, change, namespace)
        elif change.kind is Kind.PODS_END:
            then = without(cluster, [t for t in cluster.tenants if t.title in change.names])
        assert not fits(then, change.request, namespace)
        assert fits(replace(then, quota=change.quota), change.request, namespace)
        assert not fits(replace(cluster, quota=change.quota), request, namespace)
