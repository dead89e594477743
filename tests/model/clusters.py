"""Clusters with tenants, and quotas, drawn at random."""

from dataclasses import replace

from hypothesis import strategies as st

from gpustack.model.cluster import Cluster, Tenant, settle
from gpustack.model.holding import Placement
from gpustack.model.placement import place
from gpustack.model.quota import NO_QUOTA, NamespaceQuota, Quota
from tests.model.machines import nodes, pods

NAMESPACES = ("team-a", "team-b")
POOLS = ("", "red", "blue")


def quotas() -> st.SearchStrategy[Quota]:
    """Quotas of none, some or all namespaces, by short and by full model names."""
    names = st.sampled_from(["P40", "A100", "tesla-p40", "NVIDIA-A100-SXM4-80GB", "T4"])
    limits = st.builds(
        NamespaceQuota,
        cards=st.dictionaries(names, st.integers(0, 500), max_size=3),
        pools=st.lists(st.sampled_from(["red", "blue"]), unique=True, max_size=2).map(tuple),
    )
    return st.builds(Quota, namespaces=st.dictionaries(st.sampled_from(NAMESPACES), limits))


@st.composite
def clusters(draw: st.DrawFn, most_nodes: int = 3, most_tenants: int = 4) -> Cluster:
    """One to three nodes, some of whose cards are taken by tenants and some by nobody we know."""
    found = draw(
        st.lists(nodes(most=3), min_size=1, max_size=most_nodes, unique_by=lambda node: node.name)
    )
    found = [replace(node, pool=draw(st.sampled_from(POOLS))) for node in found]
    cluster = settle(found, ())
    for number, request in enumerate(draw(st.lists(pods(most=2), max_size=most_tenants))):
        node = cluster.nodes[draw(st.sampled_from(sorted(cluster.nodes)))]
        answer = place(node, request)
        if isinstance(answer, Placement):
            namespace = draw(st.sampled_from(NAMESPACES))
            name = f"tenant-{number}"
            tenant = Tenant(uid=name, namespace=namespace, name=name, placement=answer)
            cluster = replace(
                settle(cluster.nodes.values(), (tenant,)), tenants=(*cluster.tenants, tenant)
            )
    return replace(cluster, quota=draw(st.one_of(st.just(NO_QUOTA), quotas())))
