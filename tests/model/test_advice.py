"""What would make a pod fit: each change fits, and one unit nearer to the pod's wish does not."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.advice import Change, Kind, Pending, explain, waiting
from gpustack.model.advice.question import with_container
from gpustack.model.cluster import Cluster, Tenant, settle
from gpustack.model.device import Node, Use
from gpustack.model.explanation import Reason, Refusal
from gpustack.model.holding import Placement
from gpustack.model.placement import place
from gpustack.model.quota import NO_QUOTA, NamespaceQuota, Quota, within
from gpustack.model.request import ContainerRequest, PodRequest, Selector, Topology
from tests.model.clusters import NAMESPACES, clusters
from tests.model.machines import WHOLE, card, grouped, node, pod, pods


def changes(cluster: Cluster, request: PodRequest, namespace: str = "team-a") -> dict[Kind, Change]:
    found = explain(cluster, Pending(namespace=namespace, name="p", request=request))
    return {change.kind: change for change in found.changes}


def alone(where: Node, *tenants: Tenant, quota: Quota = NO_QUOTA) -> Cluster:
    return settle([where], tenants, quota)


def tenant(where: Node, name: str, request: PodRequest, namespace: str = "team-a") -> Tenant:
    answer = place(where, request)
    assert isinstance(answer, Placement)
    return Tenant(uid=name, namespace=namespace, name=name, placement=answer)


def fits(cluster: Cluster, request: PodRequest, namespace: str) -> bool:
    ask = within(cluster.quota, cluster.usage(), namespace, place)
    return any(isinstance(ask(each, request), Placement) for each in cluster.nodes.values())


def test_a_pod_that_fits_needs_no_change() -> None:
    found = explain(alone(node(1)), Pending(namespace="x", name="p", request=pod((50, 8))))
    assert found.fits
    assert not found.changes


def test_fewer_cores_names_the_exact_figure() -> None:
    found = changes(alone(node(2, taken={0: Use(cores=60), 1: Use(cores=75)})), pod((50, 8)))
    assert found[Kind.FEWER_CORES].request.containers[0].cores == 40
    assert found[Kind.FEWER_CORES].text == "container 'c0' asks 40 instead of 50 cores"


def test_less_memory_names_the_exact_figure() -> None:
    found = changes(alone(node(1, taken={0: Use(cores=1, memory_units=50)})), pod((50, 20)))
    assert found[Kind.LESS_MEMORY].request.containers[0].memory_units == 14


def test_where_neither_alone_helps_both_are_lowered_as_little_as_possible() -> None:
    found = changes(alone(node(1, taken={0: Use(cores=60, memory_units=50)})), pod((50, 20)))
    share = found[Kind.SMALLER_SHARE].request.containers[0]
    assert (share.cores, share.memory_units) == (40, 14)
    assert Kind.FEWER_CORES not in found


def test_fewer_whole_cards_come_before_a_share() -> None:
    found = changes(alone(node(4, taken={3: WHOLE})), pod((400, 8)))
    assert found[Kind.FEWER_CORES].request.containers[0].cores == 300


def test_one_topology_demand_is_dropped_only_as_far_as_needed() -> None:
    machine = node(4, grouped(2, 2), {0: WHOLE, 2: WHOLE})
    machine = replace(machine, cards=tuple(replace(each, numa=0) for each in machine.cards))
    found = changes(alone(machine), pod((200, 0), topology=Topology.SINGLE_SWITCH))
    assert found[Kind.OTHER_TOPOLOGY].request.topology is Topology.SINGLE_NUMA


def test_another_model_is_named() -> None:
    machine = Node(name="n", cards=(card(0, model="Tesla T4"), card(1, model="Tesla P40")))
    found = changes(alone(machine), pod((50, 8), models=Selector(include=("A100",))))
    assert found[Kind.OTHER_MODEL].names == ("Tesla-P40", "Tesla-T4")


def test_other_cards_than_the_named_one_are_named() -> None:
    machine = node(2, taken={0: WHOLE})
    found = changes(alone(machine), pod((50, 8), uuids=Selector(include=("GPU-0",))))
    assert found[Kind.OTHER_UUID].names == ("GPU-1",)


def test_the_smallest_pods_to_wait_for_are_named() -> None:
    machine = node(1)
    tenants = [tenant(machine, name, pod((cores, 8))) for name, cores in (("a", 20), ("b", 60))]
    found = changes(alone(machine, *tenants), pod((40, 8)))
    assert found[Kind.PODS_END].names == ("team-a/a",)
    both = changes(alone(machine, *tenants), pod((90, 8)))
    assert both[Kind.PODS_END].names == ("team-a/a", "team-a/b")


def test_one_more_card_is_enough_where_one_is_missing() -> None:
    found = changes(alone(node(4, grouped(2, 2), {3: WHOLE})), pod((400, 0)))
    assert found[Kind.MORE_CARDS].count == 1
    assert found[Kind.MORE_CARDS].placement.containers[0].minors == (0, 1, 2, 4)


def test_a_card_to_repair_is_named() -> None:
    machine = node(2, taken={0: WHOLE})
    sick = replace(machine, cards=(machine.cards[0], replace(machine.cards[1], healthy=False)))
    assert changes(alone(sick), pod((50, 8)))[Kind.CARDS_REPAIRED].names == ("1 (GPU-1)",)


def test_a_full_quota_names_the_pod_to_wait_for_and_the_least_increase() -> None:
    machine = node(4)
    quota = Quota(namespaces={"team-a": NamespaceQuota(cards={"P40": 100})})
    mine = tenant(machine, "mine", pod((80, 8)))
    theirs = tenant(machine, "theirs", pod((10, 8)), "team-b")
    found = changes(alone(machine, mine, theirs, quota=quota), pod((50, 8)))
    assert found[Kind.FEWER_CORES].request.containers[0].cores == 20
    assert found[Kind.PODS_END].names == ("team-a/mine",)
    assert found[Kind.MORE_QUOTA].text == (
        "the quota of namespace 'team-a' allows 1.3 instead of 1 P40 cards"
    )


def test_every_node_says_why_not_and_every_card_its_first_reason() -> None:
    cluster = alone(node(2, taken={0: Use(cores=80), 1: Use(memory_units=60)}))
    found = explain(cluster, Pending(namespace="x", name="p", request=pod((30, 8))))
    answer = found.answers["node"]
    assert isinstance(answer, Refusal)
    assert [each.reason for each in answer.cards] == [
        Reason.INSUFFICIENT_CORE,
        Reason.INSUFFICIENT_MEMORY,
    ]


def test_beyond_the_bound_the_set_is_irreducible_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "MOST_TRIES", 1)
    machine = node(1)
    tenants = [tenant(machine, f"t{i}", pod((10, 2))) for i in range(8)]
    found = changes(alone(machine, *tenants), pod((50, 8)))[Kind.PODS_END]
    assert len(found.names) == 3
    assert not found.smallest


@given(clusters(), pods(most=2), st.sampled_from(NAMESPACES))
def test_every_change_fits_and_one_unit_nearer_does_not(
    cluster: Cluster, request: PodRequest, namespace: str
) -> None:
    for change in changes(cluster, request, namespace).values():
        then = carried_out(cluster, change)
        if then is not None:
            assert fits(then, change.request, namespace)
        for nearer_cluster, nearer in one_nearer(cluster, request, change):
            assert not fits(nearer_cluster, nearer, namespace)


@given(clusters(), pods(most=2), st.sampled_from(NAMESPACES))
def test_a_refused_pod_is_told_what_to_wait_for_where_tenants_stand_in_the_way(
    cluster: Cluster, request: PodRequest, namespace: str
) -> None:
    empty = cluster.without(cluster.tenants)
    if not fits(cluster, request, namespace) and fits(empty, request, namespace):
        one_node = any(
            fits(cluster.without(t for t in cluster.tenants if t.placement.node == name),
                 request, namespace)
            for name in cluster.nodes
        )  # fmt: skip
        assert not one_node or Kind.PODS_END in changes(cluster, request, namespace)


def carried_out(cluster: Cluster, change: Change) -> Cluster | None:
    """The cluster after the change; None where the change is to hardware."""
    if change.kind is Kind.PODS_END:
        return cluster.without(t for t in cluster.tenants if t.title in change.names)
    if change.quota is not None:
        return replace(cluster, quota=change.quota)
    return None if change.kind in {Kind.CARDS_REPAIRED, Kind.MORE_CARDS} else cluster


def one_nearer(
    cluster: Cluster, request: PodRequest, change: Change
) -> Iterator[tuple[Cluster, PodRequest]]:
    """What is one unit less of a change than `change`."""
    if change.kind is Kind.PODS_END:
        for staying in change.names:
            leaving = [t for t in cluster.tenants if t.title in change.names]
            yield cluster.without(t for t in leaving if t.title != staying), request
    elif change.quota is not None:
        for name, limits in change.quota.namespaces.items():
            old = cluster.quota.namespaces[name]
            for model, most in limits.cards.items():
                if most > old.cards.get(model, 0):
                    cards = {**limits.cards, model: most - 1}
                    less = replace(limits, cards=cards)
                    quota = Quota(namespaces={**change.quota.namespaces, name: less})
                    yield replace(cluster, quota=quota), request
    else:
        for asked, given_now in zip(request.containers, change.request.containers, strict=True):
            for more in _one_more(asked, given_now):
                yield cluster, with_container(change.request, more)


def _one_more(asked: ContainerRequest, now: ContainerRequest) -> Iterator[ContainerRequest]:
    if now.cores < asked.cores:
        step = 100 if now.cores >= 100 else 1
        if now.cores + step <= asked.cores and now.cores != 99:
            yield replace(now, cores=now.cores + step)
    if now.memory_units < asked.memory_units:
        yield replace(now, memory_units=now.memory_units + 1)


@given(
    st.lists(st.tuples(st.integers(10, 60), st.integers(1, 30)), min_size=2, max_size=7),
    st.tuples(st.integers(50, 99), st.integers(20, 64)),
)
def test_no_smaller_set_of_pods_makes_room(
    shares: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    cluster = alone(node(2))
    for number, share in enumerate(shares):
        where = cluster.nodes["node"]
        if isinstance(place(where, pod(share)), Placement):
            tenants = (*cluster.tenants, tenant(where, f"t{number}", pod(share)))
            cluster = alone(node(2), *tenants)
    change = changes(cluster, pod(asked)).get(Kind.PODS_END)
    assert (change is None) == fits(cluster, pod(asked), "team-a")
    for size in range(1, len(change.names) if change else 0):
        for leaving in itertools.combinations(cluster.tenants, size):
            assert not fits(cluster.without(leaving), pod(asked), "team-a")
