"""All there is at one moment: nodes with what is taken of them, by which pods, and the quota."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpustack.model.cluster.eligibility import NO_DEMANDS, Demands, Host
from gpustack.model.frozen import freeze
from gpustack.model.node import Node
from gpustack.model.placement import Placement, apply
from gpustack.model.quota.claim import Claim
from gpustack.model.quota.quota import NO_QUOTA, Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.request import PodRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod to place: whose it is, what it asks, and what it says about nodes."""

    namespace: str
    name: str
    request: PodRequest
    demands: Demands = NO_DEMANDS

    @property
    def title(self) -> str:
        """How people name it: `namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A pod that holds cards, bound or only reserved."""

    uid: str
    namespace: str
    name: str
    placement: Placement

    @property
    def title(self) -> str:
        """How people name it: `namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Nodes by name, with the tenants' uses counted in, and the tenants.

    A tenant whose node isn't there takes no card of the others, but counts in its quota. `hosts`
    says what the nodes say to pods (`eligibility`); one that it doesn't name takes any. `claims`
    are those of the pods that wait to be bound.
    """

    nodes: Mapping[str, Node]
    tenants: tuple[Tenant, ...] = ()
    quota: Quota = NO_QUOTA
    hosts: Mapping[str, Host] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "nodes", "hosts")

    def usage(self, namespace: str | None = None) -> Usage:
        """Return what every namespace uses of its quota, or one alone, which costs less."""
        usage = Usage()
        for tenant in self.tenants:
            if namespace in {None, tenant.namespace}:
                where = tenant.placement.node
                node = self.nodes.get(where) or Node(name=where)
                usage.put(tenant.uid, tenant.namespace, tenant.name, node, tenant.placement)
        for claim in self.claims:
            limit = self.quota.of(claim.namespace)
            if limit is not None and namespace in {None, claim.namespace}:
                usage.claim(claim, limit.cards)
        return usage


def settle(nodes: Iterable[Node], tenants: Iterable[Tenant], quota: Quota = NO_QUOTA) -> Cluster:
    """Return the cluster of idle `nodes` on which the tenants take what their placements say."""
    by_name = {node.name: node for node in nodes}
    held = tuple(tenants)
    for tenant in held:
        node = by_name.get(tenant.placement.node)
        if node is not None:
            by_name[node.name] = apply(node, tenant.placement)
    return Cluster(nodes=by_name, tenants=held, quota=quota)
