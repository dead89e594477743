"""A namespace's usage as a value of its own."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Cluster, Tenant
from gpustack.model.model_name import model_matches
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.quota.usage import Usage, amounts
from tests.model.clusters import NAMESPACES, clusters
from tests.model.machines import card, dice, node, pod


def put(usage: Usage, uid: str, namespace: str, cores: int) -> None:
    where = node(8)
    found = place(where, pod((cores, 8)))
    assert isinstance(found, Placement)
    usage.put(uid, namespace, uid, where, found)


@given(dice, st.integers(1, 25))
def test_a_part_and_the_whole_change_each_by_itself(rolled: random.Random, steps: int) -> None:
    """So do parts of parts; each is compared with a dictionary of what it should hold."""
    known: list[tuple[Usage, dict[tuple[str, str], int]]] = [(Usage(), {})]
    for _ in range(steps):
        at = rolled.randrange(len(known))
        usage, held = known[at]
        namespace = NAMESPACES[0] if at else rolled.choice(NAMESPACES)
        uid = f"{namespace}-{rolled.randrange(4)}"
        match rolled.randrange(3):
            case 0:
                held[namespace, uid] = rolled.randint(1, 99)
                put(usage, uid, namespace, held[namespace, uid])
            case 1:
                held.pop((namespace, uid), None)
                usage.drop(uid)
            case 2:
                part = {key: cores for key, cores in held.items() if key[0] == NAMESPACES[0]}
                known.append((usage.of(NAMESPACES[0]), part))
        for each, wanted in known:
            for name in NAMESPACES:
                pods = {uid: cores for (where, uid), cores in wanted.items() if where == name}
                assert each.used(name, "P40") == sum(pods.values())
                found = {uid: cores for uid, _, cores in each.holders(name, "P40")}
                assert found == pods


def test_a_renumbered_card_counts_once_in_its_namespace() -> None:
    """Its tenant reaches two cards until the pod ends, but was given one."""
    answer = place(node(3), pod((100, 0)))
    assert isinstance(answer, Placement)
    moved = Node(name="node", cards=(card(0, uuid="GPU-1"), card(1, uuid="GPU-0"), card(2)))
    assert sum(amounts(moved, answer).values()) == 100


def test_an_unchanged_part_is_ranked_once() -> None:
    """Each filter of a pod asks for its namespace, which may have ten thousand pods."""
    usage = Usage()
    put(usage, "p0", "team", 30)
    first = usage.of("team").holders("team", "P40")
    assert usage.of("team").holders("team", "P40") is first
    put(usage, "p1", "team", 40)
    assert [uid for uid, _, _ in usage.of("team").holders("team", "P40")] == ["p1", "p0"]


def test_a_node_that_renames_its_cards_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The extender reads the usage under its cache's lock; a node writes its own models."""
    usage = Usage()
    put(usage, "stays", "team", 30)
    for number in range(100):
        where = Node(name="node", cards=(card(0, model=f"M{number}"),))
        found = place(where, pod((50, 8)))
        assert isinstance(found, Placement)
        usage.put("renamed", "team", "renamed", where, found)
    asked = []

    def matches(pattern: str, model: str) -> bool:
        asked.append(model)
        return model_matches(pattern, model)

    monkeypatch.setattr("gpustack.model.quota.usage.model_matches", matches)
    assert usage.used("team", "P40") == 30
    assert sorted(asked) == ["M99", "Tesla-P40"]


@given(clusters())
def test_usage_kept_pod_by_pod_is_what_the_placements_hold(cluster: Cluster) -> None:
    usage = cluster.usage()
    for tenant in cluster.tenants[1:]:
        usage.drop(tenant.uid)
    for namespace in NAMESPACES:
        expected = 0
        for tenant in cluster.tenants[:1]:
            if tenant.namespace == namespace:
                where = cluster.nodes[tenant.placement.node]
                found = amounts(where, tenant.placement)
                expected = sum(v for model, v in found.items() if model_matches("P40", model))
        assert usage.used(namespace, "P40") == expected


A100 = (card(0, model="NVIDIA A100", uuid="a"), card(1, model="NVIDIA A100", uuid="b"))
WITHOUT = {
    "the node names no card any more": Node(name="n0"),
    "the node names the other card only": Node(name="n0", cards=A100[1:]),
}


def on_the_first(cores: int) -> Placement:
    found = place(Node(name="n0", cards=A100), pod((cores, 8 if cores < 100 else 0)))
    assert isinstance(found, Placement)
    return found


@pytest.mark.parametrize("now", WITHOUT.values(), ids=WITHOUT.keys())
@pytest.mark.parametrize("cores", [50, 100])
def test_a_lost_card_counts_on_the_model_that_it_had(now: Node, cores: int) -> None:
    usage, held = Usage(), on_the_first(cores)
    usage.put("p", "team", "p", Node(name="n0", cards=A100), held)
    for _ in range(2):
        usage.put("p", "team", "p", now, held)
        assert [usage.used("team", each) for each in ("A100", "T4")] == [cores, 0]
    usage.drop("p")
    assert usage.used("team", "A100") == 0


def test_a_lost_card_of_an_unknown_model_counts_on_every_model() -> None:
    usage = Usage()
    usage.put("p", "team", "p", Node(name="n0"), on_the_first(50))
    assert [usage.used("team", each) for each in ("A100", "T4")] == [50, 50]
    assert usage.holders("team", "T4") == [("p", "p", 50)]


def test_a_pod_of_a_node_that_is_gone_counts_in_the_cluster() -> None:
    tenant = Tenant(uid="p", namespace="team", name="p", placement=on_the_first(50))
    assert Cluster(nodes={}, tenants=(tenant,)).usage("team").used("team", "A100") == 50
