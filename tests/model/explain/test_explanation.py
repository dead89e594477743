"""Changes that make a pod fit: each fits, and one unit nearer to the pod's request does not."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Cluster, Pod, settle
from gpustack.model.cluster.eligibility import Demands, Host
from gpustack.model.explain import add_capacity
from gpustack.model.explain.explanation import Explanation, explain
from gpustack.model.explain.query import Change, Kind, with_container
from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT, Policy, Spread
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import ContainerRequest, PodRequest, Selector, Topology
from gpustack.model.use import Use
from tests.model.asking import alone, changes, fits, in_pool, tenant
from tests.model.clusters import NAMESPACES, clusters, without
from tests.model.machines import WHOLE, card, grouped, node, pod, pods


def test_a_pod_that_fits_needs_no_change() -> None:
    found = explain(alone(node(1)), Pod(namespace="x", name="p", request=pod((50, 8))))
    assert found.fits
    assert not found.changes


def test_fewer_cores_names_the_exact_figure() -> None:
    found = changes(alone(node(2, taken={0: Use(cores=60), 1: Use(cores=75)})), pod((50, 8)))
    assert found[Kind.FEWER_CORES].request.containers[0].cores == 40
    assert found[Kind.FEWER_CORES].text == "container 'c0' asks 40 instead of 50 cores"


def test_less_memory_names_the_exact_figure() -> None:
    found = changes(alone(node(1, taken={0: Use(cores=1, memory_units=50)})), pod((50, 20)))
    assert found[Kind.LESS_MEMORY].request.containers[0].memory_units == 14


def test_both_figures_are_lowered_least_where_one_alone_is_not_enough() -> None:
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
    found = explain(cluster, Pod(namespace="x", name="p", request=pod((30, 8))))
    answer = found.answers["node"]
    assert isinstance(answer, Refusal)
    assert [each.reason for each in answer.cards] == [
        Reason.INSUFFICIENT_CORE,
        Reason.INSUFFICIENT_MEMORY,
    ]


def test_many_broken_cards_on_many_nodes_are_not_all_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(add_capacity, "MOST_REPAIRS", 0)
    machine = node(4, taken={3: WHOLE})
    sick = replace(machine, cards=tuple(replace(each, healthy=False) for each in machine.cards))
    found = changes(alone(sick), pod((60, 8), (60, 8)))[Kind.CARDS_REPAIRED]
    assert len(found.names) == 2
    assert not found.smallest
    whole = changes(alone(sick), pod((200, 0)))[Kind.CARDS_REPAIRED]
    assert whole.text == "cards 1 (GPU-1), 2 (GPU-2) of node are healthy again"
    assert whole.smallest


def test_the_cheaper_quota_increase_is_named_on_a_node_with_two_models() -> None:
    there = Node(name="node", cards=(card(0), card(1, model="Tesla T4")))
    quota = Quota(namespaces={"team-a": NamespaceQuota(cards={"P40": 0, "T4": 40})})
    found = changes(alone(there, quota=quota), pod((50, 8)))
    assert found[Kind.MORE_QUOTA].text == (
        "the quota of namespace 'team-a' allows 0.5 instead of 0.4 T4 cards"
    )


def test_the_least_quota_decides_which_container_gets_which_model() -> None:
    there = Node(name="node", cards=(card(0, model="Tesla P40"), card(1, model="Tesla T4")))
    quota = Quota(namespaces={"team-a": NamespaceQuota(cards={"P40": 1, "tesla": 156})})
    found = changes(alone(there, quota=quota), pod((84, 8), (100, 0)))
    assert found[Kind.MORE_QUOTA].text == (
        "the quota of namespace 'team-a' allows 0.84 instead of 0.01 P40 cards and 1.84 instead of"
        " 1.56 tesla cards"
    )


def test_a_share_in_place_of_a_whole_card_says_how_much_memory_it_has() -> None:
    found = changes(alone(node(1, taken={0: Use(cores=30)})), pod((100, 8)))
    assert found[Kind.FEWER_CORES].text == (
        "container 'c0' asks 70 instead of 100 cores, a share of a card with 8 memory units (2 GiB)"
    )


def waits(cluster: Cluster, demands: Demands, request: PodRequest) -> Explanation:
    pending = Pod(namespace="team-a", name="p", request=request, demands=demands)
    return explain(cluster, pending)


def test_a_node_that_has_the_cards_but_keeps_the_pod_away_is_named() -> None:
    cluster = replace(alone(node(1)), hosts={"node": Host(cordoned=True)})
    found = waits(cluster, Demands(), pod((50, 8)))
    assert not found.fits
    (change,) = found.changes
    assert (change.kind, change.names) == (Kind.OTHER_NODE, ("node",))
    assert "node node is cordoned" in change.text


def test_a_gated_pod_is_told_its_gates_and_its_cards_without_them() -> None:
    gated = Demands(gates=("queue", "budget"))
    (change,) = waits(alone(node(1)), gated, pod((50, 8))).changes
    assert (change.kind, change.names) == (Kind.GATES_REMOVED, ("queue", "budget"))
    assert change.placement.containers[0].minors == (0,)
    assert not waits(alone(node(1)), gated, pod((50, 80))).changes


@pytest.mark.parametrize(("policy", "first"), [(EXACT, "full"), (Spread(), "empty")])
def test_the_policy_decides_the_first_choice(policy: Policy, first: str) -> None:
    full = replace(node(2, taken={0: Use(cores=10)}), name="full")
    empty = replace(node(2), name="empty")
    pending = Pod(namespace="team-a", name="p", request=pod((50, 8)))
    found = explain(settle([full, empty], ()), pending, policy)
    assert found.choice == first
    minors = {name: answer.containers[0].minors for name, answer in found.answers.items()
              if isinstance(answer, Placement)}  # fmt: skip
    assert minors["full"] == ((0,) if policy is EXACT else (1,))


@given(clusters(), pods(most=2), st.sampled_from(NAMESPACES))
def test_every_change_fits_and_one_unit_nearer_does_not(
    cluster: Cluster, request: PodRequest, namespace: str
) -> None:
    for change in changes(cluster, request, namespace).values():
        then = carried_out(cluster, change, namespace)
        if then is not None:
            assert fits(then, change.request, namespace)
        for nearer_cluster, nearer in one_nearer(cluster, request, change):
            assert not fits(nearer_cluster, nearer, namespace)


def carried_out(cluster: Cluster, change: Change, namespace: str) -> Cluster | None:
    """The cluster after the change; None where the change is to hardware."""
    if change.quota is not None:
        cluster = replace(cluster, quota=change.quota)
    if change.kind is Kind.PODS_END:
        return without(cluster, [t for t in cluster.tenants if t.title in change.names])
    if change.kind is Kind.NODE_IN_POOL:
        return in_pool(cluster, change, namespace)
    return None if change.kind in {Kind.CARDS_REPAIRED, Kind.MORE_CARDS} else cluster


def one_nearer(
    cluster: Cluster, request: PodRequest, change: Change
) -> Iterator[tuple[Cluster, PodRequest]]:
    """Yield the changes that are one unit smaller than `change`."""
    if change.also and change.quota is not None:  # that both are needed, `test_more_quota` shows
        cluster = replace(cluster, quota=change.quota)
    if change.kind is Kind.PODS_END:
        for staying in change.names:
            leaving = [t for t in cluster.tenants if t.title in change.names]
            yield without(cluster, [t for t in leaving if t.title != staying]), request
    elif change.kind is Kind.MORE_QUOTA and change.quota is not None:
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
