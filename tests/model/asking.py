"""Questions about pods that wait, put shortly."""

from gpustack.model.cluster.cluster import Cluster, Tenant, settle
from gpustack.model.explain.explanation import explain
from gpustack.model.explain.query import Change, Kind, Pending
from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT
from gpustack.model.quota.quota import NO_QUOTA, Quota
from gpustack.model.request import PodRequest


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
    ask = within(cluster.quota, cluster.usage(), namespace, EXACT)
    return any(isinstance(ask(each, request), Placement) for each in cluster.nodes.values())
