"""Clusters with tenants, and quotas, drawn at random."""

import random
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Cluster, Tenant, settle
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement, release
from gpustack.model.quota.quota import NO_QUOTA, NamespaceQuota, Quota
from gpustack.model.request import PodRequest
from tests.model.machines import KINDS, ask, dice, in_use, machine, numbered
from tests.model.properties.cases import pod_of

NAMESPACES = ("team-a", "team-b")
POOLS = ("", "red", "blue")
QUOTA_NAMES = ("P40", "A100", "tesla-p40", "NVIDIA-A100-SXM4-80GB", "T4", "tesla")


def without(cluster: Cluster, leaving: Iterable[Tenant]) -> Cluster:
    """Return the cluster after these tenants ended."""
    gone, nodes = tuple(leaving), dict(cluster.nodes)
    for tenant in gone:
        name = tenant.placement.node
        nodes[name] = release(nodes[name], tenant.placement)
    staying = tuple(tenant for tenant in cluster.tenants if tenant not in gone)
    return replace(cluster, nodes=nodes, tenants=staying)


def quotas() -> st.SearchStrategy[Quota]:
    """Quotas of none, some or all namespaces, by short and by full model names."""
    return st.builds(quota, dice)


def quota(rolled: random.Random) -> Quota:
    """Draw a quota that leaves most namespaces something."""
    return Quota(
        namespaces={
            namespace: NamespaceQuota(
                cards={
                    name: rolled.randint(0, 500)
                    for name in rolled.sample(QUOTA_NAMES, rolled.randint(1, len(QUOTA_NAMES)))
                },
                pools=tuple(rolled.sample(POOLS[1:], rolled.choice([0, 0, 1, 2]))),
            )
            for namespace in NAMESPACES
            if rolled.random() < 0.6
        }
    )


@st.composite
def clusters(draw: st.DrawFn, most_nodes: int = 3, most_tenants: int = 4) -> Cluster:
    """One to three nodes; tenants take some cards, and pods that are unknown take others."""
    rolled = draw(dice)
    cluster = settle(several(rolled, draw(st.integers(1, most_nodes))), ())
    for number in range(draw(st.integers(0, most_tenants))):
        node = cluster.nodes[rolled.choice(sorted(cluster.nodes))]
        answer = place(node, small_pod(rolled, node))
        if isinstance(answer, Placement):
            namespace, name = rolled.choice(NAMESPACES), f"tenant-{number}"
            tenant = Tenant(uid=name, namespace=namespace, name=name, placement=answer)
            cluster = replace(
                settle(cluster.nodes.values(), (tenant,)), tenants=(*cluster.tenants, tenant)
            )
    return replace(cluster, quota=rolled.choice([NO_QUOTA, quota(rolled)]))


def several(rolled: random.Random, count: int, most_cards: int = 3) -> list[Node]:
    """Draw nodes in pools, lightly used."""
    return [
        replace(
            in_use(rolled, machine(rolled, rolled.randint(1, most_cards), f"n{number}"), most=0.3),
            pool=rolled.choice(POOLS),
        )
        for number in range(count)
    ]


def small_pod(rolled: random.Random, node: Node, most: int = 2) -> PodRequest:
    """Draw a pod that often fits on an idle node like this."""
    count = rolled.randint(1, most)
    asked = [(rolled.choice(KINDS), ask(rolled)) for _ in range(count)]
    return pod_of(rolled, node, numbered(asked), picky=0.1)
