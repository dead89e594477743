"""The pods that must end: the smallest set, and the words where the search is cut off."""

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Cluster, Pod, settle
from gpustack.model.explain import evict
from gpustack.model.explain.explanation import explain
from gpustack.model.explain.query import Kind
from gpustack.model.node import Node
from gpustack.model.policies import Policy
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.request import PodRequest, Selector
from tests.model.asking import alone, changes, fits, tenant
from tests.model.clusters import NAMESPACES, clusters, without
from tests.model.machines import card, node, pod, pods


def test_the_smallest_pods_to_wait_for_are_named() -> None:
    machine = node(1)
    tenants = [tenant(machine, name, pod((cores, 8))) for name, cores in (("a", 20), ("b", 60))]
    found = changes(alone(machine, *tenants), pod((40, 8)))
    assert found[Kind.PODS_END].names == ("team-a/a",)
    both = changes(alone(machine, *tenants), pod((90, 8)))
    assert both[Kind.PODS_END].names == ("team-a/a", "team-a/b")


def bigger(machine: Node, *parts: tuple[int, int]) -> Cluster:
    """Return a cluster of the machine with one tenant for each part."""
    cluster = alone(machine)
    for number, part in enumerate(parts):
        held = tenant(cluster.nodes[machine.name], f"t{number}", pod(part))
        cluster = alone(machine, *cluster.tenants, held)
    return cluster


def test_a_set_beyond_the_bound_is_irreducible_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evict, "MOST_TRIES", 1)
    # One pod has enough cores and another enough memory, but no pod has both.
    cluster = bigger(node(1), (40, 1), (2, 30), (40, 2), (2, 25))
    found = changes(cluster, pod((50, 34)))[Kind.PODS_END]
    assert len(found.names) == 2
    assert not found.smallest


def test_a_set_of_the_least_possible_size_is_smallest_beyond_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evict, "MOST_TRIES", 1)
    found = changes(bigger(node(1), *[(10, 2)] * 8), pod((50, 8)))[Kind.PODS_END]
    assert len(found.names) == 3
    assert found.smallest


def test_a_full_node_and_a_full_quota_name_a_pod_of_each() -> None:
    here = node(1)
    other = Node(name="other", cards=(card(0, uuid="GPU-other"),))
    theirs = tenant(here, "theirs", pod((80, 8)), "team-b")
    mine = tenant(other, "mine", pod((100, 0)))
    quota = Quota(namespaces={"team-a": NamespaceQuota(cards={"P40": 100})})
    cluster = settle([here, other], [theirs, mine], quota)
    request = pod((50, 8), uuids=Selector(include=("GPU-0",)))
    found = changes(cluster, request)[Kind.PODS_END]
    assert found.names == ("team-b/theirs", "team-a/mine")
    assert found.smallest


def test_no_pod_is_told_to_wait_for_half_the_namespace() -> None:
    machine = node(18)
    cluster = bigger(machine, *[(40, 2)] * 35)
    quota = Quota(namespaces={"team-a": NamespaceQuota(cards={"P40": 40})})
    found = changes(replace(cluster, quota=quota), pod((40, 2)))
    assert Kind.PODS_END not in found
    assert Kind.MORE_QUOTA in found


@given(clusters(), pods(most=2), st.sampled_from(NAMESPACES))
def test_no_smaller_set_of_pods_on_any_nodes_makes_room_within_the_quota(
    cluster: Cluster, request: PodRequest, namespace: str
) -> None:
    if fits(cluster, request, namespace):
        return
    least = next(
        (
            size
            for size in range(1, len(cluster.tenants) + 1)
            for leaving in itertools.combinations(cluster.tenants, size)
            if fits(without(cluster, leaving), request, namespace)
        ),
        None,
    )
    change = changes(cluster, request, namespace).get(Kind.PODS_END)
    if change is not None and change.also:  # more quota as well: no set is enough alone
        change = None
    assert (None if change is None else len(change.names)) == least
    assert change is None or change.smallest


@dataclass(frozen=True, slots=True)
class Counted(Policy):
    """The default policy, which records every request."""

    asked: list[PodRequest] = field(default_factory=list, compare=False)

    def read(self, request: PodRequest) -> PodRequest:
        self.asked.append(request)
        return request


@pytest.mark.parametrize("asked", [pod((50, 34)), pod((300, 0))])
def test_the_work_is_bounded_by_the_nodes_and_the_sets_tried(asked: PodRequest) -> None:
    full = bigger(node(4), *[(40, 1), (2, 30), (40, 2), (2, 25)] * 4)
    names = [f"n{number}" for number in range(30)]
    nodes = {name: replace(full.nodes["node"], name=name) for name in names}
    tenants = tuple(
        replace(each, uid=f"{name}/{each.uid}", placement=replace(each.placement, node=name))
        for name in names
        for each in full.tenants
    )
    policy = Counted()
    found = explain(
        replace(full, nodes=nodes, tenants=tenants),
        Pod(namespace="team-a", name="p", request=asked),
        policy,
    )
    assert Kind.PODS_END in {change.kind for change in found.changes}
    reduced = 2 * len(full.tenants) * evict.MOST_REDUCED
    assert len(policy.asked) < 20 * len(names) + evict.MOST_TRIES + reduced
