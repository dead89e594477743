"""Short forms of questions about pods that wait."""

from collections.abc import Iterable
from dataclasses import replace

from gpustack.model.cluster.cluster import Cluster, Pod, Tenant, settle
from gpustack.model.explain.explanation import explain
from gpustack.model.explain.query import Change, Kind
from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT, Policy
from gpustack.model.quota.quota import NO_QUOTA, Quota
from gpustack.model.request import PodRequest


def changes(cluster: Cluster, request: PodRequest, namespace: str = "team-a") -> dict[Kind, Change]:
    found = explain(cluster, Pod(namespace=namespace, name="p", request=request))
    return {change.kind: change for change in found.changes}


def alone(where: Node, *tenants: Tenant, quota: Quota = NO_QUOTA) -> Cluster:
    return settle([where], tenants, quota)


def tenant(where: Node, name: str, request: PodRequest, namespace: str = "team-a") -> Tenant:
    answer = place(where, request)
    assert isinstance(answer, Placement)
    return Tenant(uid=name, namespace=namespace, name=name, placement=answer)


def in_pool(cluster: Cluster, change: Change, namespace: str) -> Cluster:
    """Return the cluster with the change's node in a pool of the namespace's quota."""
    (name,) = change.names
    pool = cluster.quota.namespaces[namespace].pools[0]
    return replace(cluster, nodes={**cluster.nodes, name: replace(cluster.nodes[name], pool=pool)})


def fits(cluster: Cluster, request: PodRequest, namespace: str) -> bool:
    ask = within(cluster.quota, cluster.usage(), namespace, EXACT)
    return any(isinstance(ask(each, request), Placement) for each in cluster.nodes.values())


def rank(
    nodes: Iterable[Node], request: PodRequest, policy: Policy = EXACT
) -> list[tuple[Node, Placement]]:
    """Ask every node; return those that fit, the best first, each with its placement."""
    request = policy.read(request)
    answers = [(node, place(node, request, policy)) for node in nodes]
    fitting = [(node, answer) for node, answer in answers if isinstance(answer, Placement)]

    def order(entry: tuple[Node, Placement]) -> tuple[int, tuple[int, ...], str]:
        node, placement = entry
        fullness = policy.fullness(node, request.node_strategy)
        return policy.increase(node, placement), fullness, node.name

    return sorted(fitting, key=order)
